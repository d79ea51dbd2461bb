# docker build -f deploy/agent.Dockerfile -t registry.example.com/edict-agent:0.1.0 .
# The agent of a machine: edict, and nft, by which it changes the machine's rules.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags=-s -o /edict ./cmd/edict

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends nftables ca-certificates && rm -rf /var/lib/apt/lists/*
COPY --from=build /edict /usr/local/bin/edict
ENTRYPOINT ["/usr/local/bin/edict"]
CMD ["agent", "--help"]
