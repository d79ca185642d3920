package venafi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// servers are servers that answer as a test says.
type servers struct {
	ca        *vaulttest.CA
	requests  []venafi.Order
	retrieved []string
	verify    error
	request   func(venafi.Order) (string, error)
	retrieve  func(id string, o venafi.Order) ([]byte, error)
}

func (s *servers) NextCheck() time.Duration { return 5 * time.Minute }

func (s *servers) Verify(context.Context, venafi.Issuer, venafi.Access) error { return s.verify }

func (s *servers) Request(ctx context.Context, i venafi.Issuer, access venafi.Access, o venafi.Order) (string, error) {
	if _, err := access(ctx, i.Credentials); err != nil {
		return "", &venafi.InitError{Err: err}
	}
	s.requests = append(s.requests, o)
	if s.request != nil {
		return s.request(o)
	}
	name, err := o.ObjectName()
	return `\VED\Policy\` + i.Zone + `\` + name, err
}

func (s *servers) Retrieve(_ context.Context, _ venafi.Issuer, _ venafi.Access, id string, o venafi.Order) ([]byte, error) {
	s.retrieved = append(s.retrieved, id)
	if s.retrieve != nil {
		return s.retrieve(id, o)
	}
	return s.sign(o)
}

func (s *servers) sign(o venafi.Order) ([]byte, error) {
	data, err := s.ca.Sign(string(o.PEM), o.Duration.String())
	if err != nil {
		return nil, err
	}
	return []byte(strings.Join(append([]string{data["certificate"].(string)}, data["ca_chain"].([]string)...), "")), nil
}

// world is a backend with an API in memory.
type world struct {
	issuing.Backend
	*servers
	shared *Shared
	api    client.Client
	clock  *testingclock.FakeClock
	// patch, if not nil, answers a patch in place of the API. It reports whether it
	// has.
	patch func(client.Object) (bool, error)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, certmanager.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{servers: &servers{ca: vaulttest.NewCA(t)}, clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second))}
	w.ca.Now = w.clock.Now
	objects := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tpp"}, Data: map[string][]byte{"access-token": []byte("token")}},
	).Build()
	w.api = interceptor.NewClient(objects, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if w.patch != nil {
				if done, err := w.patch(o); done {
					return err
				}
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	w.restart()
	return w
}

// restart forgets what is only in memory.
func (w *world) restart() {
	w.shared = Share(w.servers)
	w.Backend = New(issuing.Config{Client: w.api, ClusterResources: "cluster"}, w.shared)
}

func issuer(change func(*cmv1.Issuer)) *cmv1.Issuer {
	i := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "corp", UID: "uid-1", Generation: 1}}
	i.Spec.Venafi = &cmv1.VenafiIssuer{Zone: `Certificates\web`, TPP: &cmv1.VenafiTPP{
		URL: "https://tpp.example.com/vedsdk", CredentialsRef: cmmeta.LocalObjectReference{Name: "tpp"},
	}}
	if change != nil {
		change(i)
	}
	return i
}

func pkcs10(t testing.TB, cn string) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{CommonName: cn, DNSNames: []string{cn}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// certificateRequest stores a CertificateRequest, and signingRequest a
// CertificateSigningRequest.
func (w *world) certificateRequest(t *testing.T, name, cn string, annotations map[string]string) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-cr-" + name), CreationTimestamp: metav1.NewTime(w.clock.Now()), Annotations: annotations,
	}}
	cr.Spec = cmv1.CertificateRequestSpec{Request: pkcs10(t, cn), IssuerRef: cmmeta.IssuerReference{Name: "corp"}}
	w.put(t, cr)
	return cr
}

func (w *world) signingRequest(t *testing.T, name, cn string, annotations map[string]string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-csr-" + name), CreationTimestamp: metav1.NewTime(w.clock.Now()), Annotations: annotations,
	}}
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: pkcs10(t, cn), SignerName: "issuers.cert-manager.io/ns.corp", Usages: []certificatesv1.KeyUsage{"digital signature", "key encipherment"},
	}
	w.put(t, csr)
	return csr
}

func (w *world) put(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// try makes an attempt for a request as the API has it now.
func (w *world) try(t *testing.T, by cmv1.GenericIssuer, object client.Object) (*signer.Issued, error) {
	t.Helper()
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	return w.stale(t, by, object)
}

// stale makes an attempt for a request as it was read before.
func (w *world) stale(t *testing.T, by cmv1.GenericIssuer, object client.Object) (*signer.Issued, error) {
	t.Helper()
	var req request.Request
	switch o := object.(type) {
	case *cmv1.CertificateRequest:
		req = request.FromCertificateRequest(o)
	case *certificatesv1.CertificateSigningRequest:
		req = request.FromCSR(o)
	}
	made, err := issuing.RequestOf(req)
	if err != nil {
		t.Fatal(err)
	}
	return w.Sign(t.Context(), by, made, w.clock.Now())
}

// verdict shows an error as state, reason and text, and the pause that it wants.
func verdict(err error) string {
	var permanent *signer.PermanentError
	var pending *signer.PendingError
	switch {
	case err == nil:
		return "Issued"
	case errors.As(err, &permanent):
		return "Failed " + permanent.Reason + " " + err.Error()
	case errors.As(err, &pending) && pending.Watched:
		return "Watched " + pending.Reason + " " + pending.Message
	case errors.As(err, &pending) && pending.Paced:
		return fmt.Sprintf("Pending %s %s (%v)", pending.Reason, pending.Message, pending.RetryAfter)
	case errors.As(err, &pending):
		return "Pending " + pending.Reason + " " + pending.Message
	}
	return "no verdict: " + err.Error()
}
