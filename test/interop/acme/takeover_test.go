package acme

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/run/server"
)

// stage is a point at which one program stops and the other continues.
type stage struct {
	name string
	// reach has the first program work until it is there.
	reach func(s *scene, first program)
}

var stages = []stage{
	{"account", func(s *scene, first program) {
		defer first.run(s.world, issuers)()
		s.issuerReady(s.cert.Spec.IssuerRef)
	}},
	{"order", func(s *scene, first program) {
		defer first.run(s.world, all(challenges)...)()
		s.hasChallenges()
	}},
	{presented, func(s *scene, first program) {
		defer first.run(s.world, everything...)()
		eventually(s.t, "the challenges are presented", func() bool {
			found := s.challenges()
			return len(found) == len(s.cert.Spec.DNSNames) && len(s.left()) == s.shown &&
				!slices.ContainsFunc(found, func(ch acmev1.Challenge) bool {
					return !ch.Status.Presented || !strings.Contains(ch.Status.Reason, s.reason)
				})
		})
	}},
	{"valid", func(s *scene, first program) {
		stop := first.run(s.world, all(challenges)...)
		s.hasChallenges()
		stop()
		defer first.run(s.world, issuers, orders, challenges)()
		eventually(s.t, "the order is valid", func() bool {
			found := s.orders()
			return len(found) == 1 && len(found[0].Status.Certificate) > 0
		})
	}},
	{"ready", func(s *scene, first program) {
		defer first.run(s.world, everything...)()
		s.reaches(s.cert, 1)
	}},
}

// presented is the stage in which challenges are presented, and not yet seen.
// Those that are deleted in that stage are never seen.
const (
	presented = "presented"
	deleted   = "deleted"
)

// scene is a world with an issuer and a Certificate, for which nothing has been
// done.
type scene struct {
	*world
	cert *cmv1.Certificate
	// open, if not nil, lets the CA and self checks see what is presented.
	open func()
	// left returns remaining objects or records of deleted challenges.
	left func() []string
	// shown is the number of these while all challenges are presented, and reason a part of
	// the challenges' reason then. cert-manager can create an object twice, and notices it
	// only later.
	shown  int
	reason string
}

func (s *scene) hasChallenges() {
	s.t.Helper()
	eventually(s.t, "there are challenges", func() bool { return len(s.challenges()) == len(s.cert.Spec.DNSNames) })
}

// methods are how challenges are solved, and the programs that do it.
var methods = []struct {
	name string
	// set returns the scene for a stage.
	set   func(t *testing.T, at string) *scene
	other program
}{
	{"DNS-01", byUpdates, standalone},
	{"HTTP-01", byPods, controllers},
}

// byUpdates solves by DNS records. Its Issuer is of a namespace.
func byUpdates(t *testing.T, at string) *scene {
	const soa = " 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"
	names := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{tsigName: {Algorithm: dns.HmacSHA512, Secret: tsigSecret}}},
		"example.com."+soa, "a.example.com. 300 IN A 127.0.0.1")
	w := newWorld(t, pebbleOptions{resolver: names.Addr}, func(cfg *server.Config) {
		cfg.Controllers = noCertManager
		cfg.ACME.DNS01.RecursiveNameservers = []string{names.Addr}
		cfg.ACME.DNS01.RecursiveNameserversOnly = true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
	})
	w.apply(ingresses)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tsig"}, StringData: map[string]string{"key": tsigSecret}})
	solver := acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{
		Nameserver: names.Addr, TSIGAlgorithm: "HMACSHA512", TSIGKeyName: "example-com-secret",
		TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "key"},
	}}}
	// Self checks of cert-manager take a minute.
	solver.WaitInsteadOfSelfCheck = &metav1.Duration{}
	switch at {
	case presented:
		solver.WaitInsteadOfSelfCheck.Duration = 40 * time.Second
	case deleted:
		solver.WaitInsteadOfSelfCheck.Duration = time.Hour
	}
	w.createIssuer("acme", solver)
	return &scene{
		world: w, cert: w.certificateOf(cmmeta.IssuerReference{Name: "acme"}, "a.example.com", "*.example.com"),
		left: func() []string {
			return append(names.TXT("_acme-challenge.example.com."), names.TXT("_acme-challenge.a.example.com.")...)
		},
		shown: 2, reason: "Waiting",
	}
}

// byPods solves by pods behind Ingresses. Its issuer is a ClusterIssuer.
func byPods(t *testing.T, at string) *scene {
	w := newWorld(t, pebbleOptions{}, func(cfg *server.Config) {
		cfg.Controllers = noCertManager
		cfg.ACME.HTTP01.Listen = nil
	})
	w.apply(ingresses)
	public := startNodes(w)
	public.closed.Store(at == presented || at == deleted)
	issuer := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: issuerSpec(w.acme, "acme", byHTTP)}
	w.create(issuer)
	return &scene{
		world: w, cert: w.certificateOf(cmmeta.IssuerReference{Name: "acme", Kind: cmv1.ClusterIssuerKind}, "a.example.com", "b.example.com"),
		open: func() { public.closed.Store(false) },
		left: func() (names []string) {
			for name := range w.uids(&corev1.PodList{}, &corev1.ServiceList{}, &networkingv1.IngressList{}) {
				if strings.Contains(name, "cm-acme-http-solver-") {
					names = append(names, name)
				}
			}
			return names
		},
		shown: 6, reason: "propagation: wrong status code '503'",
	}
}

// certificateOf creates a Certificate that keeps its key.
func (w *world) certificateOf(issuer cmmeta.IssuerReference, names ...string) *cmv1.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	cert.Spec = cmv1.CertificateSpec{
		SecretName: "web-tls", IssuerRef: issuer, DNSNames: names, PrivateKey: &cmv1.CertificatePrivateKey{RotationPolicy: cmv1.RotationPolicyNever},
	}
	w.create(cert)
	return cert
}

// What one program began, the other finishes: with the same objects, account
// and key. It renews the certificate also.
func TestTakeover(t *testing.T) {
	for _, method := range methods {
		for _, from := range []struct{ first, second program }{{certManager, method.other}, {method.other, certManager}} {
			for _, at := range stages {
				t.Run(method.name+"/"+from.first.name+"/"+at.name, func(t *testing.T) {
					takeover(t, method.set(t, at.name), at, from.first, from.second)
				})
			}
		}
	}
}

func takeover(t *testing.T, s *scene, at stage, first, second program) {
	at.reach(s, first)
	before := s.snapshot()
	defer second.run(s.world, everything...)()
	created := s.watchCreated(before)
	if at.name == presented && s.open != nil {
		s.looked(before)
		s.open()
	}
	s.reaches(s.cert, 1)
	s.leftovers()
	s.unchanged(before, created())
	s.cleaned()

	old := s.secret(s.cert)
	s.renew(s.cert)
	s.reaches(s.cert, 2)
	renewed := s.secret(s.cert)
	if renewed.UID != old.UID || !bytes.Equal(renewed.Data[corev1.TLSPrivateKeyKey], old.Data[corev1.TLSPrivateKeyKey]) {
		t.Error("the renewal has another Secret or key")
	}
	if bytes.Equal(renewed.Data[corev1.TLSCertKey], old.Data[corev1.TLSCertKey]) {
		t.Error("the renewal has the same certificate")
	}
	if got := *s.issuerReady(s.cert.Spec.IssuerRef).GetStatus().ACME; got != before.account {
		t.Errorf("the account is %+v, was %+v", got, before.account)
	}
}

// cleaned waits until nothing is left of challenges.
func (s *scene) cleaned() {
	s.t.Helper()
	eventually(s.t, "nothing is left of the challenges", func() bool { return len(s.left()) == 0 })
}

// looked waits until the second program has done a self check, or has said why
// it cannot.
func (s *scene) looked(before snapshot) {
	s.t.Helper()
	eventually(s.t, "the challenges are checked again", func() bool {
		for _, ch := range s.challenges() {
			if ch.Status.Presented && ch.ResourceVersion != before.versions[ch.UID] && ch.Status.Reason != "" {
				return true
			}
		}
		return false
	})
}

// snapshot is what a takeover must not change.
type snapshot struct {
	account    acmev1.ACMEIssuerStatus
	accountKey types.UID
	// objects are what there is, by kind and name.
	objects map[string]types.UID
	// versions are the resource versions of the Challenges.
	versions map[types.UID]string
}

// snapshot returns what there is.
func (s *scene) snapshot() snapshot {
	s.t.Helper()
	issuer := s.issuerReady(s.cert.Spec.IssuerRef)
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: issuer.GetNamespace(), Name: issuer.GetSpec().ACME.PrivateKey.Name}}
	if key.Namespace == "" {
		key.Namespace = clusterResources
	}
	s.get(key)
	taken := snapshot{
		account: *issuer.GetStatus().ACME, accountKey: key.UID, versions: map[types.UID]string{},
		objects: s.uids(&cmv1.CertificateRequestList{}, &acmev1.OrderList{}, &acmev1.ChallengeList{}, &corev1.PodList{}, &corev1.ServiceList{}, &networkingv1.IngressList{}),
	}
	for _, ch := range s.challenges() {
		taken.versions[ch.UID] = ch.ResourceVersion
	}
	return taken
}

// uids returns the UIDs of all objects of some kinds, by kind and name.
func (w *world) uids(lists ...client.ObjectList) map[string]types.UID {
	w.t.Helper()
	found := map[string]types.UID{}
	for _, list := range lists {
		w.list(list)
		if err := meta.EachListItem(list, func(object runtime.Object) error {
			found[w.nameOf(object)] = object.(client.Object).GetUID()
			return nil
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	return found
}

// nameOf returns the kind and the name of an object.
func (w *world) nameOf(object runtime.Object) string {
	kind, err := w.admin.GroupVersionKindFor(object)
	if err != nil {
		w.t.Error(err)
	}
	return kind.Kind + " " + object.(client.Object).GetName()
}

// unchanged fails the test unless the Certificate was issued with what there
// was before. created are the objects that were made since.
func (s *scene) unchanged(before snapshot, created []string) {
	s.t.Helper()
	after := s.snapshot()
	if after.account != before.account {
		s.t.Errorf("the account is %+v, was %+v", after.account, before.account)
	}
	if after.accountKey != before.accountKey {
		s.t.Error("the account has another Secret")
	}
	kinds := map[string]int{}
	for name := range after.objects {
		kind, _, _ := strings.Cut(name, " ")
		kinds[kind]++
	}
	if kinds["CertificateRequest"] != 1 || kinds["Order"] != 1 {
		s.t.Errorf("there are %v", after.objects)
	}
	for _, name := range created {
		kind, _, _ := strings.Cut(name, " ")
		// What solves a challenge is made for those that had not begun.
		if before.has(kind) {
			s.t.Errorf("%s was made by the second program", name)
		}
	}
}

// has reports whether there was an object of a kind.
func (s snapshot) has(kind string) bool {
	for name := range s.objects {
		if strings.HasPrefix(name, kind+" ") && name != "Service kubernetes" {
			return true
		}
	}
	return false
}

// watchCreated notes the objects that are made from now on. The function that it
// returns ends that, and returns them.
func (w *world) watchCreated(before snapshot) (created func() []string) {
	w.t.Helper()
	found := make(chan []string)
	var watches []watch.Interface
	for _, list := range []client.ObjectList{
		&cmv1.CertificateRequestList{}, &acmev1.OrderList{}, &acmev1.ChallengeList{}, &corev1.PodList{}, &corev1.ServiceList{}, &networkingv1.IngressList{},
	} {
		events, err := w.admin.Watch(w.t.Context(), list)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(events.Stop)
		watches = append(watches, events)
		go func() {
			var names []string
			for event := range events.ResultChan() {
				if event.Type != watch.Added {
					continue
				}
				if name := w.nameOf(event.Object); before.objects[name] != event.Object.(client.Object).GetUID() {
					names = append(names, name)
				}
			}
			found <- names
		}()
	}
	return func() (all []string) {
		for _, events := range watches {
			events.Stop()
		}
		for range watches {
			all = append(all, <-found...)
		}
		return all
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

// reaches waits until a revision of a Certificate is ready.
func (w *world) reaches(cert *cmv1.Certificate, revision int) {
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
