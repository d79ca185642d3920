package acme

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/server"
)

// Where one program stops and the other goes on.
type stage struct {
	name string
	// reached has the first program work until it is there.
	reached func(w *world, first program, cert *cmv1.Certificate)
}

var stages = []stage{
	{"account", func(w *world, first program, cert *cmv1.Certificate) {
		defer first.run(w, issuers)()
		w.issuerReady(cert.Spec.IssuerRef.Name)
	}},
	{"order", func(w *world, first program, cert *cmv1.Certificate) {
		defer first.run(w, all(challenges)...)()
		eventually(w.t, "there are challenges", func() bool { return len(w.challenges()) == len(cert.Spec.DNSNames) })
	}},
	{"presented", func(w *world, first program, cert *cmv1.Certificate) {
		defer first.run(w, everything...)()
		eventually(w.t, "a challenge is presented", func() bool {
			for _, ch := range w.challenges() {
				if ch.Status.Presented {
					return true
				}
			}
			return false
		})
	}},
	{"valid", func(w *world, first program, cert *cmv1.Certificate) {
		stop := first.run(w, all(challenges)...)
		eventually(w.t, "there are challenges", func() bool { return len(w.challenges()) == len(cert.Spec.DNSNames) })
		stop()
		defer first.run(w, issuers, orders, challenges)()
		eventually(w.t, "the order is valid", func() bool {
			found := w.orders()
			return len(found) == 1 && len(found[0].Status.Certificate) > 0
		})
	}},
	{"ready", func(w *world, first program, cert *cmv1.Certificate) {
		defer first.run(w, everything...)()
		w.ready(cert, 1)
	}},
}

// What one program began, the other finishes: with the same objects, account
// and key. It renews the certificate also.
func TestTakeover(t *testing.T) {
	for _, direction := range []struct{ first, second program }{{certManager, certplane}, {certplane, certManager}} {
		for _, at := range stages {
			t.Run(direction.first.name+"/"+at.name, func(t *testing.T) {
				takeover(t, direction.first, direction.second, at)
			})
		}
	}
}

func takeover(t *testing.T, first, second program, at stage) {
	const soa = " 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"
	secret := base64.StdEncoding.EncodeToString([]byte("a secret of 32 bytes for updates"))
	names := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"updates.": {Algorithm: dns.HmacSHA256, Secret: secret}}},
		"example.com."+soa, "a.example.com. 300 IN A 127.0.0.1")
	w := newWorld(t, pebbleOptions{resolver: names.Addr}, func(cfg *server.Config) {
		cfg.Controllers = noCertManager
		cfg.ACME.DNS01.RecursiveNameservers = []string{names.Addr}
		cfg.ACME.DNS01.RecursiveNameserversOnly = true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
	})
	w.apply(ingresses)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tsig"}, StringData: map[string]string{"key": secret}})
	solver := acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{
		Nameserver: names.Addr, TSIGAlgorithm: "HMACSHA256", TSIGKeyName: "updates",
		TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "key"},
	}}}
	// Self checks of cert-manager take a minute.
	solver.WaitInsteadOfSelfCheck = &metav1.Duration{}
	if at.name == "presented" {
		solver.WaitInsteadOfSelfCheck.Duration = 15 * time.Second
	}
	w.createIssuer("acme", solver)
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	cert.Spec = cmv1.CertificateSpec{
		SecretName: "web-tls", IssuerRef: cmmeta.IssuerReference{Name: "acme"}, DNSNames: []string{"a.example.com", "*.example.com"},
		PrivateKey: &cmv1.CertificatePrivateKey{RotationPolicy: cmv1.RotationPolicyNever},
	}
	w.create(cert)

	at.reached(w, first, cert)
	before := w.snapshot(cert)
	stop := second.run(w, everything...)
	defer stop()
	created := w.watchChallenges(before)
	w.ready(cert, 1)
	w.leftovers()
	if names := created(); at.name != "account" && len(names) > 0 {
		t.Errorf("the Challenges %q were created after the takeover", names)
	}
	w.unchanged(before, cert)
	if left := names.TXT("_acme-challenge.example.com."); len(left) > 0 {
		t.Errorf("records are left: %q", left)
	}

	old := w.secret(cert)
	w.renew(cert)
	w.ready(cert, 2)
	renewed := w.secret(cert)
	if renewed.UID != old.UID || !bytes.Equal(renewed.Data[corev1.TLSPrivateKeyKey], old.Data[corev1.TLSPrivateKeyKey]) {
		t.Error("the renewal has another Secret or key")
	}
	if bytes.Equal(renewed.Data[corev1.TLSCertKey], old.Data[corev1.TLSCertKey]) {
		t.Error("the renewal has the same certificate")
	}
	if got := *w.issuerReady("acme").Status.ACME; got != before.account {
		t.Errorf("the account is %+v, was %+v", got, before.account)
	}
}

// snapshot is what a takeover must not change.
type snapshot struct {
	account    acmev1.ACMEIssuerStatus
	accountKey types.UID
	// objects are the UIDs of what there is, by kind and name.
	objects map[string]types.UID
}

func (w *world) snapshot(cert *cmv1.Certificate) snapshot {
	w.t.Helper()
	s := snapshot{objects: map[string]types.UID{}}
	issuer := w.issuerReady(cert.Spec.IssuerRef.Name)
	s.account = *issuer.Status.ACME
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: issuer.Namespace, Name: issuer.Spec.ACME.PrivateKey.Name}}
	w.get(key)
	s.accountKey = key.UID
	var found cmv1.CertificateRequestList
	w.list(&found)
	for _, o := range found.Items {
		s.objects["CertificateRequest "+o.Name] = o.UID
	}
	for _, o := range w.orders() {
		s.objects["Order "+o.Name] = o.UID
	}
	for _, o := range w.challenges() {
		s.objects["Challenge "+o.Name] = o.UID
	}
	return s
}

// unchanged fails the test unless the Certificate was issued with what there
// was before.
func (w *world) unchanged(before snapshot, cert *cmv1.Certificate) {
	w.t.Helper()
	after := w.snapshot(cert)
	if after.account != before.account {
		w.t.Errorf("the account is %+v, was %+v", after.account, before.account)
	}
	if after.accountKey != before.accountKey {
		w.t.Error("the account has another Secret")
	}
	if len(before.objects) == 0 {
		return
	}
	for name, uid := range after.objects {
		if before.objects[name] != uid {
			w.t.Errorf("%s is new", name)
		}
	}
	if count := len(after.objects); count != 2 {
		w.t.Errorf("there are %d objects, not a CertificateRequest and an Order: %v", count, after.objects)
	}
}

// watchChallenges notes the Challenges that there are from now on. created ends
// that, and returns those that were not there before.
func (w *world) watchChallenges(before snapshot) (created func() (names []string)) {
	w.t.Helper()
	events, err := w.admin.Watch(w.t.Context(), &acmev1.ChallengeList{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(events.Stop)
	found := make(chan []string, 1)
	go func() {
		var names []string
		for event := range events.ResultChan() {
			if ch, ok := event.Object.(*acmev1.Challenge); ok && event.Type == watch.Added && before.objects["Challenge "+ch.Name] != ch.UID {
				names = append(names, ch.Name)
			}
		}
		found <- names
	}()
	return func() []string {
		events.Stop()
		return <-found
	}
}

// renew has a ready Certificate issued again, as "cmctl renew" does.
func (w *world) renew(cert *cmv1.Certificate) {
	w.t.Helper()
	eventually(w.t, "the Certificate can be renewed", func() bool {
		w.get(cert)
		apiutil.SetCertificateCondition(cert, cert.Generation, cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, "ManuallyTriggered", "Certificate re-issuance manually triggered")
		err := w.admin.Status().Update(w.t.Context(), cert)
		if err != nil && !apierrors.IsConflict(err) {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

// ready waits until a revision of a Certificate is there.
func (w *world) ready(cert *cmv1.Certificate, revision int) {
	w.t.Helper()
	eventually(w.t, "the certificate is ready", func() bool {
		w.get(cert)
		ready := apiutil.CertificateHasCondition(cert, cmv1.CertificateCondition{Type: cmv1.CertificateConditionReady, Status: cmmeta.ConditionTrue})
		issuing := apiutil.CertificateHasCondition(cert, cmv1.CertificateCondition{Type: cmv1.CertificateConditionIssuing, Status: cmmeta.ConditionTrue})
		return ready && !issuing && cert.Status.Revision != nil && *cert.Status.Revision == revision
	})
}

func (w *world) secret(cert *cmv1.Certificate) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cert.Namespace, Name: cert.Spec.SecretName}}
	w.get(secret)
	return secret
}

func (w *world) list(list client.ObjectList) {
	w.t.Helper()
	if err := w.admin.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) challenges() []acmev1.Challenge {
	w.t.Helper()
	var list acmev1.ChallengeList
	w.list(&list)
	return list.Items
}

func (w *world) orders() []acmev1.Order {
	w.t.Helper()
	var list acmev1.OrderList
	w.list(&list)
	return list.Items
}
