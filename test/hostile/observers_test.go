package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const (
	requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	jsonType     = "application/json"
	// actionTimeout bounds one action of an observer, on a busy machine. An attack
	// that works holds places until requests time out, or forever.
	actionTimeout = 20 * time.Second
	// rounds is how often each observer acts during an attack.
	rounds = 3
)

// observer is a client that must be served. Only checks of health are tried again: to others,
// an answer to try again later counts as a failure.
type observer struct {
	name string
	act  func(ctx context.Context) error
	took []time.Duration
}

// observers returns all of them, with clients of their own.
func (w *world) observers(t *testing.T) []*observer {
	t.Helper()
	as := func(cfg *rest.Config, fresh bool) *http.Client {
		c, err := client(cfg, fresh)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	stranger, viewer, node, joining, admin := as(w.Anonymous(t), true), as(w.viewer, false), as(w.node, false), as(w.newToken(t), false), as(w.Admin(t), false)
	get := func(who *http.Client, path string) func(context.Context) error {
		return func(ctx context.Context) error { return w.do(ctx, who, http.MethodGet, path, nil, nil) }
	}
	return []*observer{
		{name: "livez", act: threeTimes(get(stranger, "/livez"))},
		{name: "readyz", act: threeTimes(get(stranger, "/readyz"))},
		{name: "version", act: get(stranger, "/version")},
		{name: "a user reads", act: get(viewer, requestsPath+"?limit=10")},
		{name: "a user writes", act: func(ctx context.Context) error {
			_, err := w.create(ctx, viewer, newRequest(t, "example.com/x", pki.Subject{CommonName: "x"}))
			return err
		}},
		{name: "a node reads itself", act: get(node, "/api/v1/nodes/edge-1")},
		{name: "a token joins a node", act: func(ctx context.Context) error { return w.join(ctx, t, joining) }},
		{name: "a person approves", act: func(ctx context.Context) error { return w.approve(ctx, t, viewer, admin) }},
		{name: "an ACME client begins", act: func(ctx context.Context) error { return directory(ctx, w.acme) }},
		{name: "an Issuer signs", act: func(ctx context.Context) error { return w.issue(ctx, admin) }},
	}
}

// threeTimes fails after three failures in a row, as probes do: on a busy machine, the store may
// once take longer than the two seconds that a check of health lasts.
func threeTimes(act func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := act(ctx)
		for n := 1; n < 3 && err != nil; n++ {
			pause(ctx)
			err = act(ctx)
		}
		return err
	}
}

func newRequest(t *testing.T, signer string, subject pki.Subject) *certificatesv1.CertificateSigningRequest {
	csr := apitest.NewCSR(t, "", signer, subject, apitest.NewKey(t))
	csr.GenerateName = "seen-"
	csr.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	return csr
}

// join is what a kubelet does first: with the token it requests a certificate,
// is approved and fetches the certificate.
func (w *world) join(ctx context.Context, t *testing.T, who *http.Client) error {
	subject := pki.Subject{CommonName: "system:node:edge-2", Organizations: []string{"system:nodes"}}
	made, err := w.create(ctx, who, newRequest(t, certificatesv1.KubeAPIServerClientKubeletSignerName, subject))
	if err != nil {
		return err
	}
	return w.fetch(ctx, who, made.Name)
}

// approve creates a request that a person approves.
func (w *world) approve(ctx context.Context, t *testing.T, who, admin *http.Client) error {
	made, err := w.create(ctx, who, newRequest(t, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "carol"}))
	if err != nil {
		return err
	}
	approved := apitest.With(made, certificatesv1.CertificateApproved)
	if err := w.do(ctx, admin, http.MethodPut, requestsPath+"/"+made.Name+"/approval", approved, nil); err != nil {
		return err
	}
	return w.fetch(ctx, who, made.Name)
}

func (w *world) create(ctx context.Context, who *http.Client, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	made := &certificatesv1.CertificateSigningRequest{}
	return made, w.do(ctx, who, http.MethodPost, requestsPath, csr, made)
}

// fetch waits for the certificate of a request.
func (w *world) fetch(ctx context.Context, who *http.Client, name string) error {
	for {
		var csr certificatesv1.CertificateSigningRequest
		if err := w.do(ctx, who, http.MethodGet, requestsPath+"/"+name, nil, &csr); err != nil {
			return err
		}
		if len(csr.Status.Certificate) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the certificate of %s, which has %v: %w", name, csr.Status.Conditions, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// do makes one request, which must succeed.
func (w *world) do(ctx context.Context, who *http.Client, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding: %w", err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, w.URL+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", jsonType)
	response, err := who.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %.200s", method, path, response.Status, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// observe makes all observers act at the same time, each several times.
func (w *world) observe(t *testing.T, observers []*observer) {
	t.Helper()
	var group sync.WaitGroup
	for _, o := range observers {
		group.Go(func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(t.Context(), actionTimeout)
				begin := time.Now()
				err := o.act(ctx)
				cancel()
				o.took = append(o.took, time.Since(begin))
				if err != nil {
					t.Errorf("%s: %v", o.name, err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, o := range observers {
		t.Logf("%-20s longest %v", o.name, slices.Max(o.took).Round(time.Millisecond))
	}
}
