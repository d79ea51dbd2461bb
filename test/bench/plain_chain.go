package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
)

// chainCommand makes this binary a plain server of the chain, in a process of its own.
const chainCommand = "plain-chain"

// plainChain is the least that answers admission requests over HTTP: it reads a body, asks
// the engine and writes the answer. It checks nobody, counts nothing and keeps nothing.
func plainChain(ctx context.Context) (http.Handler, error) {
	snapshot, err := admitPolicies(ctx, admitFew)
	if err != nil {
		return nil, err
	}
	engine := admission.NewEngine(admission.EngineOptions{})
	answer := func(r *http.Request) (out resource.Admitted, err error) {
		var body struct {
			Payload json.RawMessage `json:"request_payload"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return out, err
		}
		payload, err := admission.ParsePayload(body.Payload)
		if err != nil {
			return out, err
		}
		request := admission.Request{ServiceType: "vm", Labels: admission.LabelsOf(payload), Payload: payload}
		result, err := engine.Evaluate(r.Context(), snapshot, request, admission.Options{})
		if err != nil {
			return out, err
		}
		out.Status, out.ServiceProvider.Value = string(result.Status), result.ServiceProvider.Value
		out.RequestPayload, err = admission.AppendJSON(nil, result.Payload)
		return out, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := answer(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // who asked looks at every answer
	}), nil
}

// servePlainChain serves it until the process is asked to end. Garbage is collected as seldom
// as the plane does.
func servePlainChain(readyFile string) error {
	const seldom, limit = 300, 400 << 20
	debug.SetGCPercent(seldom)
	debug.SetMemoryLimit(limit)
	h, err := plainChain(context.Background())
	if err != nil {
		return err
	}
	return serveFloor(readyFile, h, "", "")
}

// plainChainChild starts such a server, and has it answer once.
func plainChainChild(ctx context.Context, e *env) (*child, error) {
	c, err := startSelf(ctx, e, "chain", chainCommand)
	if err != nil {
		return nil, err
	}
	if err := matching.once(ctx, &http.Transport{DisableKeepAlives: true}, c.url("")); err != nil {
		return nil, errors.Join(fmt.Errorf("the plain server of the chain: %w", err), c.stop())
	}
	return c, nil
}
