package webhookcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/run/server"
)

const day = 24 * time.Hour

var objects = Objects{Namespace: "hooks", Secret: "hook", Service: "hook", Configuration: "hook.hooks"}

// world is a server in which the webhook is installed. Only the test keeps the
// webhook's certificate.
type world struct {
	api   client.Client
	clock *clocktesting.FakePassiveClock
}

func start(t *testing.T) world {
	t.Helper()
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	api, err := client.New(s.Admin(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := world{api, clocktesting.NewFakePassiveClock(time.Now())}
	w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: objects.Namespace}})
	apitest.Eventually(t, "the namespace is there", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Name: objects.Namespace}, &corev1.Namespace{}) == nil
	})
	to := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: objects.Namespace, Name: objects.Service}}
	w.create(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: objects.Configuration},
		Webhooks:   validating(to, "one.example.com", "two.example.com", "three.example.com", "four.example.com"),
	})
	w.create(t, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: objects.Configuration},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			{Name: "one.example.com", ClientConfig: to, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}},
		},
	})
	return w
}

func validating(client admissionregistrationv1.WebhookClientConfig, names ...string) (webhooks []admissionregistrationv1.ValidatingWebhook) {
	for _, name := range names {
		webhooks = append(webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: name, ClientConfig: client, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		})
	}
	return webhooks
}

func (w world) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// replica is one serving process.
type replica struct {
	*reconciler
	served *tls.Certificate
}

func (w world) replica() *replica {
	r := &replica{}
	r.reconciler = newReconciler(Config{Client: w.api, Objects: objects, Issuing: pki.Unrecorded, Clock: w.clock, Use: func(c *tls.Certificate) { r.served = c }})
	return r
}

// settle reconciles until nothing is left to do now, as the controller would
// because of its own writes.
func (r *replica) settle(t *testing.T) {
	t.Helper()
	for {
		before := r.versions(t)
		if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		if maps.Equal(before, r.versions(t)) {
			return
		}
	}
}

// versions returns the resource versions of all objects that can be written.
func (r *replica) versions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for kind, object := range map[string]client.Object{
		"s": &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: objects.Namespace, Name: objects.Secret}},
		"v": &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: objects.Configuration}},
		"m": &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: objects.Configuration}},
	} {
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		versions[kind] = object.GetResourceVersion()
	}
	return versions
}

// trusts checks that the API server trusts what a replica serves, in each of
// the webhooks and under a name.
func (w world) trusts(t *testing.T, r *replica, host string) {
	t.Helper()
	configurations, err := r.configurations(t.Context())
	if err != nil || len(configurations) != 2 {
		t.Fatalf("%v, %v", configurations, err)
	}
	for _, c := range configurations {
		for _, webhook := range c.webhooks {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(webhook.client.CABundle)
			if _, err := r.served.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: w.clock.Now()}); err != nil {
				t.Errorf("%s %s at %s: %v", c.kind, webhook.name, w.clock.Now(), err)
			}
		}
	}
}

// Through a year and its rotations, two replicas that check one after the other
// are trusted at every moment, and agree.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := start(t)
	one, other := w.replica(), w.replica()
	one.settle(t)
	leaves := map[string]bool{}
	for range 30 {
		one.settle(t)
		if other.served != nil {
			w.trusts(t, other, "hook.hooks.svc") // it has not checked yet
		}
		other.settle(t)
		w.trusts(t, one, "hook.hooks.svc")
		if !one.served.Leaf.Equal(other.served.Leaf) {
			t.Fatal("they serve different certificates")
		}
		leaves[one.served.Leaf.SerialNumber.String()] = true
		w.clock.SetTime(w.clock.Now().Add(14 * day))
	}
	if len(leaves) < 6 {
		t.Errorf("there were %d certificates in sixty weeks", len(leaves))
	}
}

// A Secret that is deleted, or that a user has broken, is recreated. A starting
// process serves the existing one.
func TestHeals(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.replica()
	r.settle(t)
	restarted := w.replica()
	restarted.settle(t)
	if !restarted.served.Leaf.Equal(r.served.Leaf) {
		t.Error("a restart makes another certificate")
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: objects.Namespace, Name: objects.Secret}
	for reason, harm := range map[string]func(){
		"deleted": func() {
			if err := w.api.Delete(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		},
		"broken": func() {
			secret.Data["signing-ca.key"] = []byte("nothing")
			if err := w.api.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if err := w.api.Get(t.Context(), key, secret); err != nil {
			t.Fatal(err)
		}
		before := r.served.Leaf
		harm()
		r.settle(t)
		if r.served.Leaf.Equal(before) {
			t.Errorf("%s: nothing has changed", reason)
		}
		w.trusts(t, r, "hook.hooks.svc")
	}
}

// A user who removes the bundle, or has the webhook called elsewhere, gets what
// the webhook needs.
func TestFollowsConfigurations(t *testing.T) {
	t.Parallel()
	w := start(t)
	r := w.replica()
	r.settle(t)
	key, configuration := client.ObjectKey{Name: objects.Configuration}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.api.Get(t.Context(), key, configuration); err != nil {
		t.Fatal(err)
	}
	configuration.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://[::1]:1234/validate")}
	configuration.Webhooks[1].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://under_score.example.com/validate")}
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = nil
	}
	if err := w.api.Update(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	w.trusts(t, r, "hook.hooks.svc")
	w.trusts(t, r, "::1")
	want := configuration.DeepCopy().Webhooks
	if err := w.api.Get(t.Context(), key, configuration); err != nil {
		t.Fatal(err)
	}
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = nil
	}
	if diff := cmp.Diff(want, configuration.Webhooks); diff != "" {
		t.Errorf("more than the bundle, or the order, has changed (-want +got):\n%s", diff)
	}
}

// The process that comes second changes nothing.
func TestConflict(t *testing.T) {
	t.Parallel()
	w := start(t)
	r, faster := w.replica(), w.replica()
	secret, state, err := r.load(t.Context())
	if err != nil || secret != nil {
		t.Fatal(secret, err)
	}
	faster.settle(t)
	stale := &stale{Client: w.api}
	r.Client = stale
	result, err := r.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != worker.ConflictPause {
		t.Errorf("%+v, %v", result, err)
	}
	r.Client = w.api
	r.settle(t)
	if state.Certificate() != nil || !r.served.Leaf.Equal(faster.served.Leaf) {
		t.Error("the slower one has won")
	}
}

// stale does not see the Secret yet.
type stale struct{ client.Client }

func (s *stale) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if _, isSecret := object.(*corev1.Secret); isSecret {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	return s.Client.Get(ctx, key, object, opts...)
}
