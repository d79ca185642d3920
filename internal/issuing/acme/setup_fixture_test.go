package acme

import (
	"crypto"
	"strings"
	"testing"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
)

// world is an issuer, its API and its server.
type world struct {
	*acmetest.Server
	client   client.WithWatch
	clock    *clocktesting.FakePassiveClock
	setup    *setup
	accounts *account.Accounts
	issuer   *cmv1.Issuer
	settings AccountSettings
	answers  Answers
}

func newWorld(t *testing.T, o acmetest.Options, change func(*cmacme.ACMEIssuer)) *world {
	t.Helper()
	w := &world{
		Server: acmetest.Start(t, o), client: fake.NewClientBuilder().Build(),
		clock: clocktesting.NewFakePassiveClock(time.Now()), settings: AccountSettings{AccountKey: pki.ECDSAP256}, answers: Answers{HTTP01: Listening, TLSALPN01: Listening},
	}
	spec := &cmacme.ACMEIssuer{
		Server: w.Directory(), CABundle: w.CABundle(), Email: "admin@example.com",
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "account"}},
	}
	if change != nil {
		change(spec)
	}
	w.issuer = &cmv1.Issuer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acme", UID: "issuer", Generation: 1, Annotations: map[string]string{}},
		Spec:       cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{ACME: spec}},
	}
	w.restart(t)
	return w
}

// restart makes a new process.
func (w *world) restart(t *testing.T) {
	t.Helper()
	p, err := acme.NewPool(acme.PoolConfig{UserAgent: "test", Clock: w.clock, Jitter: func(time.Duration) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	w.accounts = account.New(account.Config{Pool: p, Secrets: w.client, ClusterResources: "cluster"})
	w.setup = newSetup(issuing.Config{Client: w.client, ClusterResources: "cluster"}, w.accounts, w.settings, w.answers)
}

// check checks the issuer once, and writes its status as the controller does.
func (w *world) check(t *testing.T) issuing.Ready {
	t.Helper()
	return w.checkAs(t, w.issuer)
}

func (w *world) checkAs(t *testing.T, issuer cmv1.GenericIssuer) issuing.Ready {
	t.Helper()
	ready, err := w.setup.Check(t.Context(), issuer, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	status := cmmeta.ConditionFalse
	if ready.OK {
		status = cmmeta.ConditionTrue
	}
	certmanager.SetIssuerCondition(issuer, cmv1.IssuerConditionReady, status, ready.Reason, ready.Message, metav1.Now())
	issuer.GetStatus().ACME = ready.ACME
	return ready
}

// says checks the issuer, whose reason and message must begin with want.
func (w *world) says(t *testing.T, want string) issuing.Ready {
	t.Helper()
	ready := w.check(t)
	if got := ready.Reason + " " + ready.Message; !strings.HasPrefix(got, want) {
		t.Errorf("the issuer says\n%s, want\n%s", got, want)
	}
	return ready
}

const registered = ReasonRegistered + " The ACME account was registered with the ACME server"

func (w *world) mustBeReady(t *testing.T) {
	t.Helper()
	if ready := w.says(t, registered); !ready.OK {
		t.Fatal("the issuer is not ready")
	}
}

// edit changes the spec, as a user does.
func (w *world) edit(change func(*cmacme.ACMEIssuer)) {
	change(w.issuer.Spec.ACME)
	w.issuer.Generation++
}

func (w *world) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// put creates a Secret, or replaces its data.
func (w *world) put(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	err := w.client.Create(t.Context(), secret)
	if client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		if err := w.client.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
}

func encoded(t *testing.T, key crypto.Signer) string {
	t.Helper()
	data, err := account.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// requests returns how many requests the server got.
func (w *world) requests() int { return len(w.Calls()) }

// intercept lets a function see each write of the API, and fail it.
func (w *world) intercept(t *testing.T, funcs interceptor.Funcs) {
	t.Helper()
	w.client = interceptor.NewClient(w.client, funcs)
	w.restart(t)
}
