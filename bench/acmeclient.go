package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// acmeServer is how an ACME server is reached.
type acmeServer struct {
	http    *http.Client
	answers *challengeAnswers

	NewNonce   string `json:"newNonce"`
	NewAccount string `json:"newAccount"`
	NewOrder   string `json:"newOrder"`
}

// readDirectory requests a server's addresses. roots are the roots of its certificate, as
// PEM.
func readDirectory(ctx context.Context, directory, roots string, answers *challengeAnswers) (*acmeServer, error) {
	client, err := rest.HTTPClientFor(&rest.Config{Host: directory, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(roots)}})
	if err != nil {
		return nil, err
	}
	s := &acmeServer{http: client, answers: answers}
	body, _, err := s.do(ctx, http.MethodGet, directory, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the directory: %w", err)
	}
	return s, json.Unmarshal(body, s)
}

// do makes one call.
func (s *acmeServer) do(ctx context.Context, method, url string, body []byte) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/jose+json")
	response, err := s.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, answer)
	}
	return answer, response.Header, err
}

// externalAccount is the key of an external account.
type externalAccount struct {
	id  string
	mac []byte
}

// acmeAccount is an account, for one call after the other.
type acmeAccount struct {
	*acmeServer
	key jose.JSONWebKey
	// thumbprint is the thumbprint of the key, in the form used in key authorizations.
	thumbprint string
	// nonce is the nonce of the last answer; empty at first.
	nonce string
}

// register makes an account, bound to an external one if that is not nil.
func (s *acmeServer) register(ctx context.Context, external *externalAccount) (*acmeAccount, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &acmeAccount{acmeServer: s, key: jose.JSONWebKey{Key: key}}
	public := a.key.Public()
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	a.thumbprint = base64.RawURLEncoding.EncodeToString(thumbprint)
	asked := map[string]any{"termsOfServiceAgreed": true}
	if external != nil {
		text, err := public.MarshalJSON()
		if err != nil {
			return nil, err
		}
		bound, err := sign(jose.SigningKey{Algorithm: jose.HS256, Key: external.mac}, s.NewAccount, text, (&jose.SignerOptions{}).WithHeader("kid", external.id))
		if err != nil {
			return nil, err
		}
		asked["externalAccountBinding"] = json.RawMessage(bound)
	}
	_, header, err := a.post(ctx, s.NewAccount, asked)
	if err != nil {
		return nil, fmt.Errorf("registering: %w", err)
	}
	a.key.KeyID = header.Get("Location")
	return a, nil
}

func sign(key jose.SigningKey, url string, payload []byte, options *jose.SignerOptions) ([]byte, error) {
	signer, err := jose.NewSigner(key, options.WithHeader("url", url))
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	return []byte(signed.FullSerialize()), nil
}

// Nonce implements jose.NonceSource.
func (a *acmeAccount) Nonce() (string, error) {
	if nonce := a.nonce; nonce != "" {
		a.nonce = ""
		return nonce, nil
	}
	_, header, err := a.do(context.Background(), http.MethodHead, a.NewNonce, nil)
	return header.Get("Replay-Nonce"), err
}

// post sends a message; payload is nil for an empty one (RFC 8555 section 6.3).
func (a *acmeAccount) post(ctx context.Context, url string, payload any) ([]byte, http.Header, error) {
	text := []byte{}
	if payload != nil {
		var err error
		if text, err = json.Marshal(payload); err != nil {
			return nil, nil, err
		}
	}
	signed, err := sign(jose.SigningKey{Algorithm: jose.ES256, Key: a.key}, url, text, &jose.SignerOptions{NonceSource: a, EmbedJWK: a.key.KeyID == ""})
	if err != nil {
		return nil, nil, err
	}
	answer, header, err := a.do(ctx, http.MethodPost, url, signed)
	if header != nil {
		a.nonce = header.Get("Replay-Nonce")
	}
	return answer, header, err
}

// The objects of the protocol, with the needed fields (RFC 8555 section 7.1).
type (
	acmeOrder struct {
		Status         string   `json:"status"`
		Authorizations []string `json:"authorizations"`
		Finalize       string   `json:"finalize"`
		Certificate    string   `json:"certificate"`
	}
	acmeAuthorization struct {
		Status     string `json:"status"`
		Challenges []struct {
			Type  string `json:"type"`
			URL   string `json:"url"`
			Token string `json:"token"`
		} `json:"challenges"`
	}
)

// obtain gets a certificate for a name with a key, by http-01 if the server asks for
// a proof.
func (a *acmeAccount) obtain(ctx context.Context, name string, key crypto.Signer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key)
	if err != nil {
		return err
	}
	body, header, err := a.post(ctx, a.NewOrder, map[string]any{"identifiers": []rfc8555.Identifier{{Type: "dns", Value: name}}})
	if err != nil {
		return err
	}
	url, order := header.Get("Location"), acmeOrder{}
	if err := json.Unmarshal(body, &order); err != nil {
		return err
	}
	if order.Status == rfc8555.StatePending {
		for _, authorization := range order.Authorizations {
			if err := a.prove(ctx, authorization); err != nil {
				return err
			}
		}
	}
	if body, _, err = a.post(ctx, order.Finalize, map[string]string{"csr": base64.RawURLEncoding.EncodeToString(csr)}); err != nil {
		return err
	}
	if err := a.poll(ctx, url, body, &order, &order.Status); err != nil {
		return err
	}
	if body, _, err = a.post(ctx, order.Certificate, nil); err != nil {
		return err
	}
	if block, _ := pem.Decode(body); block == nil {
		return fmt.Errorf("no certificate in %s", body)
	}
	return nil
}

// prove has the server validate an authorization.
func (a *acmeAccount) prove(ctx context.Context, url string) error {
	body, _, err := a.post(ctx, url, nil)
	if err != nil {
		return err
	}
	var authorization acmeAuthorization
	if err := json.Unmarshal(body, &authorization); err != nil {
		return err
	}
	for _, challenge := range authorization.Challenges {
		if challenge.Type != rfc8555.ChallengeHTTP01 {
			continue
		}
		a.answers.set(challenge.Token, a.thumbprint)
		defer a.answers.drop(challenge.Token)
		if _, _, err := a.post(ctx, challenge.URL, struct{}{}); err != nil {
			return err
		}
		return a.poll(ctx, url, nil, &authorization, &authorization.Status)
	}
	return fmt.Errorf("the server offers no http-01: %s", body)
}

// The pauses between two polls of a server. They are the same for all servers, regardless of
// the pauses that these ask for.
const (
	firstLook = 2 * time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// poll reads an object until its status is final. answer is the object in the answer of an
// earlier call, or nil.
func (a *acmeAccount) poll(ctx context.Context, url string, answer []byte, into any, status *string) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if answer != nil {
			if err := json.Unmarshal(answer, into); err != nil {
				return err
			}
			switch *status {
			case rfc8555.StateValid:
				return nil
			case rfc8555.StateInvalid:
				return fmt.Errorf("%s is invalid: %s", url, answer)
			}
			if err := sleep(ctx, pause); err != nil {
				return err
			}
		}
		var err error
		if answer, _, err = a.post(ctx, url, nil); err != nil {
			return err
		}
	}
}
