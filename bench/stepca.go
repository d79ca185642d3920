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
	// csr is the request of every call, as PEM.
	csr string
	// tokens are used once each; making them is not measured.
	tokens []string
}

// stepCARequesters is how many calls are under way at the same time.
const stepCARequesters = 64

// measureStepCA has step-ca sign for as many requesters as certplane.
func measureStepCA(ctx context.Context, opts options) (result roundResult, err error) {
	ca, err := startStepCA(ctx, opts)
	if err != nil {
		return roundResult{}, err
	}
	defer func() { err = errors.Join(err, ca.stop()) }()
	return ca.measureRound(ctx, round{stepCARequesters, opts.signatures}, func(_ string, i int) error { return ca.sign(ctx, ca.tokens[i]) })
}

func startStepCA(ctx context.Context, opts options) (*stepCA, error) {
	var access stepCAAccess
	s, err := startPeer(ctx, opts, stepCAPeer, &access)
	if err != nil {
		return nil, err
	}
	ca := &stepCA{system: s}
	if err := ca.connect(access, opts.signatures); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return ca, nil
}

// stepCAAccess is the output of the program of test/interop/stepca/program.
type stepCAAccess struct {
	URL, Roots, Provisioner string
	Key                     jose.JSONWebKey
}

// connect prepares the calls, and makes the tokens.
func (ca *stepCA) connect(access stepCAAccess, signatures int) error {
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
		return fmt.Errorf("no certificate in %s", text)
	}
	return nil
}
