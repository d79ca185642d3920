package approving

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/approval"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a reconciler with an in-memory API that counts its calls.
type fixture struct {
	*kubelets
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakePassiveClock
	registry *prometheus.Registry
	events   *events.FakeRecorder
	log      strings.Builder

	// allowed are the subresources that every user may create.
	allowed string
	// askingFails and writingFails are the API's answers, if not nil.
	askingFails, writingFails error
	// calls are the reconciler's calls that did not go to its cache.
	calls []string
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{
		t:     t,
		api:   fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&csr{}).WithObjects(objects...).Build(),
		clock: clocktesting.NewFakePassiveClock(start), registry: prometheus.NewRegistry(), events: events.NewFakeRecorder(100),
	}
	r, err := newKubelets(f.api, KubeletsConfig{Config: Config{
		Client: interceptor.NewClient(f.api, interceptor.Funcs{Create: f.create, SubResourceUpdate: f.update}),
		Clock:  f.clock, Events: f.events,
	}, Metrics: f.registry})
	if err != nil {
		t.Fatal(err)
	}
	f.kubelets = r
	return f
}

// create answers access reviews, which the in-memory API cannot.
func (f *fixture) create(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
	review, ok := obj.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return fmt.Errorf("created a %T", obj)
	}
	f.calls = append(f.calls, "create subjectaccessreviews for "+review.Spec.ResourceAttributes.Subresource)
	review.Status.Allowed = f.allowed == review.Spec.ResourceAttributes.Subresource
	return f.askingFails
}

// update writes an approval as an API server does: only the conditions.
func (f *fixture) update(ctx context.Context, c client.Client, subresource string, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	f.calls = append(f.calls, "update certificatesigningrequests/"+subresource)
	if f.writingFails != nil {
		return f.writingFails
	}
	return c.Status().Update(ctx, obj)
}

// reconcile runs the reconciler once on the request named n1.
func (f *fixture) reconcile() (reconcile.Result, error) {
	f.t.Helper()
	logger := funcr.New(func(_, args string) { f.log.WriteString(args + "\n") }, funcr.Options{Verbosity: 1})
	return f.Reconcile(log.IntoContext(f.t.Context(), logger), reconcile.Request{NamespacedName: client.ObjectKey{Name: "n1"}})
}

func (f *fixture) get() *csr {
	f.t.Helper()
	c := &csr{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: "n1"}, c); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) eventText() string {
	var all strings.Builder
	for {
		select {
		case e := <-f.events.Events:
			all.WriteString(e + "\n")
		default:
			return all.String()
		}
	}
}

// node is the user name of node n1, which requests its own certificate.
const node = "system:node:n1"

// newRequest returns a request of a user on behalf of node n1.
func newRequest(t *testing.T, user string) *csr {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := pki.NewRequest(pki.Subject{CommonName: node, Organizations: []string{"system:nodes"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: types.UID("uid-of-" + user)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem, SignerName: approval.SignerName, Username: user,
			Usages: []certificatesv1.KeyUsage{"digital signature", "client auth"},
		},
	}
}
