package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
)

// connect opens this many connections and calls send on each; if send is nil,
// they are without TLS. A connection that the server closes is opened again.
func connect(ctx context.Context, cfg *rest.Config, connections int, counts *tally, armed func(), send func(io.Writer)) error {
	config, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return err
	}
	config = config.Clone()
	config.ServerName = "localhost"
	var holding, group sync.WaitGroup
	holding.Add(connections)
	for range connections {
		group.Go(func() {
			first := sync.OnceFunc(holding.Done)
			defer first()
			for ctx.Err() == nil {
				counts.add(connectOne(ctx, cfg, config, send, first))
				pause(ctx)
			}
		})
	}
	holding.Wait()
	armed()
	group.Wait()
	return nil
}

// connectOne holds one connection until it ends, and returns how it ended.
func connectOne(ctx context.Context, cfg *rest.Config, config *tls.Config, send func(io.Writer), holding func()) string {
	raw, err := cfg.Dial(ctx, "tcp", strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil {
		return "no connection"
	}
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	defer raw.Close()
	if send == nil {
		holding()
		_, _ = io.Copy(io.Discard, raw) // until the server closes it
	} else {
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return "no handshake"
		}
		holding()
		send(secure)
	}
	if ctx.Err() != nil {
		return "left alone"
	}
	return "closed"
}

// status makes a request and returns the code of its answer.
func (w *world) status(ctx context.Context, who *http.Client, method, path string, body []byte) string {
	request, err := http.NewRequestWithContext(ctx, method, w.URL+path, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", jsonType)
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", string(types.MergePatchType))
	}
	response, err := who.Do(request)
	if err != nil {
		pause(ctx)
		return "no answer"
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return "half an answer"
	}
	return fmt.Sprint(response.StatusCode)
}

// createAll creates this many objects from several workers, then the same
// again.
func (w *world) createAll(ctx context.Context, cfg *rest.Config, many int, path string, counts *tally, armed func(), object func(int) any) error {
	const workers = 8
	var group sync.WaitGroup
	next := make(chan int)
	for range workers {
		who, err := client(cfg, false)
		if err != nil {
			return err
		}
		group.Go(func() {
			for i := range next {
				body, err := json.Marshal(object(i % many))
				if err != nil {
					panic(err) // of this test's own types
				}
				counts.add(w.status(ctx, who, http.MethodPost, path, body))
			}
		})
	}
	defer group.Wait()
	defer close(next)
	for i := 0; ; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
			return nil
		}
		if i == many/2 {
			armed()
		}
	}
}

// finalizedRequest is a request of a node with a finalizer, so that it stays.
func finalizedRequest() *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.com/stay"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: hostileRequest, SignerName: "example.com/x", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
}

// ownRequest is a node's request for another certificate for itself, which is approved and
// signed automatically.
func ownRequest() string {
	csr := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "more-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    newHostileRequest(pki.Subject{CommonName: "system:node:edge-9", Organizations: []string{"system:nodes"}}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	body, err := json.Marshal(csr)
	if err != nil {
		panic(err) // of this test's own types
	}
	return string(body)
}

// hostileRequest is shared by all of them, because a key takes time to make.
var hostileRequest = newHostileRequest(pki.Subject{CommonName: "x"})

func newHostileRequest(subject pki.Subject) []byte {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		panic(err)
	}
	request, err := pki.NewRequest(subject, key)
	if err != nil {
		panic(err)
	}
	return request
}
