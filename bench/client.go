package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
)

const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// requesterClient sends what client-go would send, with less work: the server
// is measured, and the client runs on the same processors. It is safe for
// concurrent use.
type requesterClient struct {
	url  string
	http *http.Client
	// spec is the spec of every request.
	spec certificatesv1.CertificateSigningRequestSpec
	// putOff counts answers of 429 after which the request was sent again, as
	// client-go does.
	putOff atomic.Int64
}

// codec is Kubernetes' protobuf with its envelope.
var codec = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

func newClient(cfg *rest.Config) (*requesterClient, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.DisableCompression = true
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	spec, err := newSpec("requester")
	return &requesterClient{url: cfg.Host, http: client, spec: spec}, err
}

// newSpec returns a request for a client certificate of one hour.
func newSpec(commonName string) (certificatesv1.CertificateSigningRequestSpec, error) {
	spec, _, err := newSpecAndKey(commonName)
	return spec, err
}

func newSpecAndKey(commonName string) (certificatesv1.CertificateSigningRequestSpec, []byte, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return certificatesv1.CertificateSigningRequestSpec{}, nil, err
	}
	request, err := pki.NewRequest(pki.Subject{CommonName: commonName}, key)
	if err != nil {
		return certificatesv1.CertificateSigningRequestSpec{}, nil, err
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	return certificatesv1.CertificateSigningRequestSpec{
		Request:           request,
		SignerName:        certificatesv1.KubeAPIServerClientSignerName,
		ExpirationSeconds: ptr.To[int32](3600),
		Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}, keyPEM, err
}

// create creates a request and returns the answer.
func (c *requesterClient) create(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	created, err := c.send(ctx, http.MethodPost, csrs, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.spec,
	})
	if err != nil {
		return nil, fmt.Errorf("creating: %w", err)
	}
	return created, nil
}

// submit creates a request and approves it.
func (c *requesterClient) submit(ctx context.Context, name string) error {
	created, err := c.create(ctx, name)
	if err != nil {
		return err
	}
	created.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Benchmark",
	}}
	if _, err := c.send(ctx, http.MethodPut, csrs+"/"+name+"/approval", created); err != nil {
		return fmt.Errorf("approving: %w", err)
	}
	return nil
}

// maxPutOff is how often client-go sends a request again that a server answers
// with 429.
const maxPutOff = 10

func (c *requesterClient) send(ctx context.Context, method, path string, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	csr.SetGroupVersionKind(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
	var body bytes.Buffer
	if err := codec.Encode(csr, &body); err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		code, after, answer, err := c.roundTrip(ctx, method, path, body.Bytes())
		if err != nil {
			return nil, err
		}
		switch {
		case code == http.StatusTooManyRequests && after > 0 && attempt < maxPutOff:
			c.putOff.Add(1)
			if err := sleep(ctx, after); err != nil {
				return nil, err
			}
		case code >= http.StatusBadRequest:
			return nil, refusal(code, answer)
		default:
			stored := &certificatesv1.CertificateSigningRequest{}
			_, _, err := codec.Decode(answer, nil, stored)
			return stored, err
		}
	}
}

func (c *requesterClient) roundTrip(ctx context.Context, method, path string, body []byte) (code int, after time.Duration, answer []byte, err error) {
	response, err := c.open(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return 0, 0, nil, err
	}
	defer response.Body.Close()
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, time.Duration(seconds) * time.Second, answer, err
}

func (c *requesterClient) open(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", runtime.ContentTypeProtobuf)
	request.Header.Set("Content-Type", runtime.ContentTypeProtobuf)
	request.Header.Set("User-Agent", "certplane-bench")
	return c.http.Do(request)
}

// refusal is the error for an answer that refuses a request.
func refusal(code int, answer []byte) error {
	status := &metav1.Status{}
	if _, _, err := codec.Decode(answer, nil, status); err != nil {
		return fmt.Errorf("%s: %q", http.StatusText(code), answer)
	}
	return fmt.Errorf("%s: %s", http.StatusText(code), status.Message)
}
