# docker build -f deploy/controller.Dockerfile -t registry.example.com/edict-controller:0.1.0 .
# One static file in an empty image, as that of the plane.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags=-s -o /edict-controller ./cmd/edict-controller

FROM scratch
# For a plane whose certificate is of an authority that everybody knows.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /edict-controller /edict-controller
USER 65532:65532
ENTRYPOINT ["/edict-controller"]
