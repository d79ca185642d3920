package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/client-go/rest"
)

// stepCAPeer is step-ca with one provisioner, whose tokens permit one
// certificate each.
const stepCAPeer = "step-ca"

// stepCA is a running step-ca.
type stepCA struct {
	*system
	url  string
	http *http.Client
	// csr is that of every call, as PEM.
	csr string
	// tokens are used once each; making them is not measured.
	tokens []string
}

// stepCARequesters is how many calls are under way at the same time.
const stepCARequesters = 64

// measureStepCA has step-ca sign for as many requesters as certplane.
func measureStepCA(ctx context.Context, opts options) (result signingResult, err error) {
	ca, err := startStepCA(ctx, opts)
	if err != nil {
		return signingResult{}, err
	}
	defer func() { err = errors.Join(err, ca.stop()) }()
	measuring, err := startMeasuring(ca.system)
	if err != nil {
		return signingResult{}, err
	}
	load := round{stepCARequesters, opts.signatures}
	outcomes := obtainAll(ctx, load, func(_ string, i int) error { return ca.sign(ctx, ca.tokens[i]) })
	used, err := measuring.finish()
	r := summarize(load, outcomes, used.took)
	return signingResult{
		Name: stepCAPeer, Certificates: r.Certificates, Errors: r.Errors, Rate: r.Rate,
		P50Milliseconds: r.P50Milliseconds, P99Milliseconds: r.P99Milliseconds,
		CPUMilliseconds: each(used.serverCPU, r.Certificates), ClientCPUMilliseconds: each(used.clientCPU, r.Certificates), MemoryMB: used.memoryMB,
	}, errors.Join(err, ctx.Err())
}

func startStepCA(ctx context.Context, opts options) (_ *stepCA, err error) {
	dir, err := os.MkdirTemp("", "step-ca-bench-")
	if err != nil {
		return nil, err
	}
	ca := &stepCA{system: &system{name: stepCAPeer, dir: dir}}
	defer func() {
		if err != nil {
			err = errors.Join(err, ca.stop())
		}
	}()
	if err := ca.start(filepath.Join(opts.assets, stepCAPeer), "-dir", dir); err != nil {
		return nil, err
	}
	text, err := ca.awaitAccess(ctx)
	if err != nil {
		return nil, err
	}
	return ca, ca.connect(text, opts.signatures)
}

// connect reads how the CA is reached, and makes the tokens.
func (ca *stepCA) connect(text []byte, signatures int) error {
	// access is what the program of test/interop/stepca/program writes.
	var access struct {
		URL         string          `json:"url"`
		Roots       string          `json:"roots"`
		Provisioner string          `json:"provisioner"`
		Key         jose.JSONWebKey `json:"key"`
	}
	if err := json.Unmarshal(text, &access); err != nil {
		return fmt.Errorf("reading how step-ca is reached: %w", err)
	}
	ca.url = access.URL + "/1.0/sign"
	var err error
	if ca.http, err = rest.HTTPClientFor(&rest.Config{Host: access.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(access.Roots)}}); err != nil {
		return err
	}
	spec, err := newSpec("requester")
	if err != nil {
		return err
	}
	ca.csr = string(spec.Request)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: access.Key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return err
	}
	now := time.Now()
	for range signatures {
		token, err := jwt.Signed(signer).Claims(jwt.Claims{
			ID: rand.Text(), Issuer: access.Provisioner, Subject: "requester", Audience: jwt.Audience{ca.url},
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
		}).Serialize()
		if err != nil {
			return err
		}
		ca.tokens = append(ca.tokens, token)
	}
	return nil
}

// sign gets one certificate for a token.
func (ca *stepCA) sign(ctx context.Context, token string) error {
	body, err := json.Marshal(map[string]string{"csr": ca.csr, "ott": token, "notAfter": "1h"})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, ca.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := ca.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	var answer struct {
		Certificate string `json:"crt"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	if block, _ := pem.Decode([]byte(answer.Certificate)); block == nil {
		return fmt.Errorf("there is no certificate in %s", text)
	}
	return nil
}
