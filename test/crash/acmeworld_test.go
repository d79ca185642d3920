package crash

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/server"
)

// acmeRole is where a server finds the world of ACME.
type acmeRole struct {
	// Nameserver answers all queries.
	Nameserver string
	// Responder is where HTTP-01 challenges are answered.
	Responder string
}

func (r acmeRole) configure(cfg *server.Config) {
	cfg.ACME.HTTP01.Listen, cfg.ACME.HTTP01.SelfCheck = []string{r.Responder}, selfcheck.Local
	cfg.ACME.DNS01.RecursiveNameservers, cfg.ACME.DNS01.RecursiveNameserversOnly = []string{r.Nameserver}, true
	cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
}

// acmeWorld is a server, and in this process a CA that validates challenges and
// a name server that takes updates. Both kill the server at the moment for which
// they are armed.
type acmeWorld struct {
	*testing.T
	random *rand.Rand
	role   role
	ca     *acmetest.Server
	names  *dnstest.Server
	api    client.Client

	rounds, kills, orders, twice int
	times                        map[moment]int
	// longest is the longest time per kill.
	longest time.Duration

	mu      sync.Mutex // guards all below
	process *process
	armed   moment
	struck  chan struct{} // is closed when the armed moment has come; nil if none is armed
	delay   time.Duration // from an answer to the kill
	// tokens are those of HTTP-01 challenges that the CA has validated, with the
	// name that it asked for.
	tokens map[string]string
}

func newACMEWorld(t *testing.T, o acmetest.Options) *acmeWorld {
	t.Helper()
	w := &acmeWorld{T: t, random: rand.New(rand.NewPCG(1, 1)), times: map[moment]int{}, tokens: map[string]string{}}
	w.names = dnstest.Start(t, dnstest.Options{
		Keys:    map[string]dnstest.Key{"certplane.": {Algorithm: dns.HmacSHA256, Secret: tsigKey}},
		Updated: func(update *dns.Msg) { w.done(updateStep(update)) },
	}, "example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60", "example.com. 300 IN NS ns1.example.com.")
	w.names.Break("update", dns.TypeNone, func(_ dns.ResponseWriter, update *dns.Msg) bool { return w.strikes(updateStep(update), before) })
	o.Hook, o.Validate = w.requested, w.validate
	w.ca = acmetest.Start(t, o)
	w.role = role{Dir: shortDir(t), ACME: &acmeRole{Nameserver: w.names.Addr, Responder: ownAddress(t)}}
	w.restart()
	w.create(&corev1.Secret{ObjectMeta: named("tsig"), StringData: map[string]string{"key": tsigKey}})
	return w
}

// ownAddress returns an address on loopback that nobody else takes while a
// server is dead.
func ownAddress(t *testing.T) string {
	t.Helper()
	address := apitest.FreeAddress(t)
	if runtime.GOOS != "linux" { // where all of 127.0.0.0/8 is loopback
		return address
	}
	return fmt.Sprintf("127.%d.%d.%d%s", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254), address[strings.LastIndex(address, ":"):])
}

func updateStep(update *dns.Msg) string {
	if dnstest.IsDeletion(update) {
		return deleteTXT
	}
	return addTXT
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: name}
}

// arm has the server be killed at a moment that is still to come.
func (w *acmeWorld) arm(m moment) (struck <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.struck = m, make(chan struct{})
	w.delay = time.Duration(w.random.Int64N(int64(50 * time.Millisecond)))
	return w.struck
}

func (w *acmeWorld) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.struck = nil
}

// claim reports whether this is the armed moment. It is for one caller only.
func (w *acmeWorld) claim(what string, when when) (kill func(), is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.struck == nil || w.armed != (moment{what, when}) {
		return nil, false
	}
	process, struck := w.process, w.struck
	w.struck = nil
	return func() { process.kill(); close(struck) }, true
}

// strikes kills the server if this is the armed moment.
func (w *acmeWorld) strikes(what string, when when) bool {
	kill, is := w.claim(what, when)
	if is {
		kill()
	}
	return is
}

// done kills the server if this is the armed moment, now or a little later.
func (w *acmeWorld) done(what string) {
	if w.strikes(what, unanswered) {
		return
	}
	if kill, is := w.claim(what, answered); is {
		time.AfterFunc(w.delay, kill)
	}
}

// requested is called for each request to the CA.
func (w *acmeWorld) requested(c acmetest.Call) *acmetest.Reply {
	what := string(c.Kind)
	if w.strikes(what, before) {
		return &acmetest.Reply{Lost: true}
	}
	return &acmetest.Reply{Acted: func() { w.done(what) }}
}

// validate looks for the answer to a challenge. If there is nobody who answers,
// the CA tries again.
func (w *acmeWorld) validate(v acmetest.Validation) acmetest.Verdict {
	if w.strikes(validating, before) {
		return acmetest.Verdict{Pending: true}
	}
	answer := w.lookUp
	if v.Type == rfc8555.ChallengeHTTP01 {
		answer = w.fetch
	}
	verdict := answer(v)
	w.done(validating)
	return verdict
}

func (w *acmeWorld) lookUp(v acmetest.Validation) acmetest.Verdict {
	sum := sha256.Sum256([]byte(v.KeyAuthorization))
	got := w.names.TXT("_acme-challenge." + v.Identifier.Value + ".")
	if !slices.Contains(got, base64.RawURLEncoding.EncodeToString(sum[:])) {
		return unauthorized("the TXT records are %q", got)
	}
	return acmetest.Verdict{}
}

func (w *acmeWorld) fetch(v acmetest.Validation) acmetest.Verdict {
	w.mu.Lock()
	w.tokens[v.Token] = v.Identifier.Value
	w.mu.Unlock()
	status, body, err := w.ask(v.Identifier.Value, v.Token)
	switch {
	case err != nil:
		return acmetest.Verdict{Pending: true}
	case status != http.StatusOK || body != v.KeyAuthorization:
		return unauthorized("the answer is %d, %q", status, body)
	}
	return acmetest.Verdict{}
}

// ask asks the responder.
func (w *acmeWorld) ask(host, token string) (status int, body string, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+w.role.ACME.Responder+"/.well-known/acme-challenge/"+token, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host, request.Close = host, true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func unauthorized(format string, args ...any) acmetest.Verdict {
	return acmetest.Verdict{Problem: &rfc8555.Problem{
		Type: rfc8555.Namespace + rfc8555.ProblemUnauthorized, Detail: fmt.Sprintf(format, args...),
	}}
}

// restart starts the server after it was killed.
func (w *acmeWorld) restart() {
	w.Helper()
	process := startReady(w.T, w.role)
	w.mu.Lock()
	w.process = process
	w.mu.Unlock()
	kinds, err := kinds()
	if err != nil {
		w.Fatal(err)
	}
	if w.api, err = client.New(adminConfig(w.T, w.role.Dir), client.Options{Scheme: kinds, Mapper: acmeMapper()}); err != nil {
		w.Fatal(err)
	}
}

func acmeMapper() meta.RESTMapper {
	m := mapper().(*meta.DefaultRESTMapper)
	for _, kind := range []string{"Order", "Challenge"} {
		m.Add(acmev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return m
}

func (w *acmeWorld) create(o client.Object) {
	w.Helper()
	if err := w.api.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

// namesOf are the names in the certificate of a round: two with one DNS record
// set, one with the responder.
func namesOf(round string) []string {
	return []string{round + ".example.com", "*." + round + ".example.com", "www." + round + ".example.com"}
}

// request creates an issuer with an account of its own, and a Certificate whose
// last name is validated by the responder.
func (w *acmeWorld) request(name string, names ...string) {
	w.Helper()
	issuer := &cmv1.Issuer{ObjectMeta: named(name)}
	issuer.Spec.ACME = &acmev1.ACMEIssuer{
		Server: w.ca.Directory(), CABundle: w.ca.CABundle(),
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
		Solvers: []acmev1.ACMEChallengeSolver{{
			DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{
				Nameserver: w.names.Addr, TSIGKeyName: "certplane", TSIGAlgorithm: "HMACSHA256",
				TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}, Key: "key"},
			}},
		}, {
			Selector: &acmev1.CertificateDNSNameSelector{DNSNames: names[len(names)-1:]},
			HTTP01:   &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}},
		}},
	}
	w.create(issuer)
	w.create(&cmv1.Certificate{ObjectMeta: named(name), Spec: cmv1.CertificateSpec{
		SecretName: name + secretSuffix, DNSNames: names, IssuerRef: cmmeta.IssuerReference{Name: name},
	}})
}

// reached waits until the server was killed, and reports that it was, or until
// nothing more happens.
func (w *acmeWorld) reached(name string, struck <-chan struct{}) bool {
	w.Helper()
	killed := false
	w.await(name, func() bool {
		select {
		case <-struck:
			killed = true
			return true
		default:
			return w.isFinished(name)
		}
	})
	if !killed {
		select {
		case <-struck: // after an answer
			killed = true
		default:
		}
	}
	return killed
}

// finish waits until nothing more happens.
func (w *acmeWorld) finish(name string) {
	w.Helper()
	w.await(name, func() bool { return w.isFinished(name) })
}

func (w *acmeWorld) await(name string, holds func() bool) {
	w.Helper()
	deadline := time.Now().Add(settling)
	for !holds() {
		if time.Now().After(deadline) {
			w.Fatalf("%s waits for %s\n%s\n%s", name, w.armed, w.describe(name), w.process.log.text())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// isFinished reports whether the Certificate is ready and no Challenge is left.
func (w *acmeWorld) isFinished(name string) bool {
	cert, challenges := &cmv1.Certificate{}, &acmev1.ChallengeList{}
	if w.api.Get(w.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}, cert) != nil {
		return false
	}
	ready := slices.ContainsFunc(cert.Status.Conditions, func(c cmv1.CertificateCondition) bool {
		return c.Type == cmv1.CertificateConditionReady && c.Status == cmmeta.ConditionTrue
	})
	return ready && w.api.List(w.Context(), challenges) == nil && len(challenges.Items) == 0
}

// describe returns the states of the objects, for a test that fails.
func (w *acmeWorld) describe(name string) string {
	var text strings.Builder
	cert, orders, challenges := &cmv1.Certificate{}, &acmev1.OrderList{}, &acmev1.ChallengeList{}
	_ = w.api.Get(w.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}, cert)
	_, _ = w.api.List(w.Context(), orders), w.api.List(w.Context(), challenges)
	fmt.Fprintf(&text, "Certificate: %+v\n", cert.Status.Conditions)
	for _, o := range orders.Items {
		fmt.Fprintf(&text, "Order %s: %s %s\n", o.Name, o.Status.State, o.Status.Reason)
	}
	for _, c := range challenges.Items {
		fmt.Fprintf(&text, "Challenge %s: %s %v %s\n", c.Name, c.Status.State, c.Finalizers, c.Status.Reason)
	}
	return text.String()
}

// verify checks what is left of a round in which the server was killed at the
// moments.
func (w *acmeWorld) verify(name string, moments []moment) {
	w.Helper()
	w.verifyOrders(name, moments)
	w.verifyCertificate(name)
	if left := w.names.AllTXT(); len(left) > 0 {
		w.Errorf("%s, killed at %v: TXT records are left: %q", name, moments, left)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tokens) == 0 {
		w.Errorf("%s: the CA has not asked the responder", name)
	}
	for token, host := range w.tokens {
		if status, body, err := w.ask(host, token); err != nil || status != http.StatusNotFound {
			w.Errorf("%s, killed at %v: the responder answers %s with %d, %q, %v", name, moments, token, status, body, err)
		}
	}
	clear(w.tokens)
}

// verifyOrders checks what the CA has of a round. If nobody has stored that an
// order was placed, it is placed again; the CA drops the first one.
func (w *acmeWorld) verifyOrders(name string, moments []moment) {
	w.Helper()
	placed, signed, most, least := 0, 0, 1, 1
	for _, o := range w.ca.Orders() {
		if !slices.Contains(o.Names, name+".example.com") {
			continue
		}
		placed++
		if o.Signed {
			signed++
		}
	}
	for _, m := range moments {
		if m.what != string(acmetest.NewOrder) {
			continue
		}
		switch m.when {
		case unanswered:
			least, most = 2, 2
		case answered: // it may have been stored
			most = 2
		}
	}
	if placed < least || placed > most {
		w.Errorf("%s, killed at %v: %d orders were placed, want %d to %d", name, moments, placed, least, most)
	}
	if signed != 1 {
		w.Errorf("%s, killed at %v: the CA has signed %d certificates", name, moments, signed)
	}
	w.orders++
	w.twice += placed - 1
	if accounts := len(w.ca.Accounts()); accounts != w.rounds {
		w.Errorf("%s, killed at %v: %d issuers have %d accounts", name, moments, w.rounds, accounts)
	}
	var orders acmev1.OrderList
	if err := w.api.List(w.Context(), &orders); err != nil {
		w.Fatal(err)
	}
	if len(orders.Items) != w.rounds {
		w.Errorf("%s, killed at %v: there are %d Orders for %d Certificates", name, moments, len(orders.Items), w.rounds)
	}
}

func (w *acmeWorld) verifyCertificate(name string) {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.api.Get(w.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name + secretSuffix}, secret); err != nil {
		w.Fatal(err)
	}
	block, rest := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		w.Fatalf("%s: the Secret has no certificate", name)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.Fatal(err)
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(w.ca.Roots())
	others.AppendCertsFromPEM(rest)
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "any." + name + ".example.com", Roots: roots, Intermediates: others}); err != nil {
		w.Errorf("%s: %v", name, err)
	}
}

// report logs what was done.
func (w *acmeWorld) report() {
	w.Helper()
	var text strings.Builder
	for _, what := range steps {
		fmt.Fprintf(&text, "\n  %-26s", what)
		for _, when := range []when{before, unanswered, answered} {
			fmt.Fprintf(&text, "%4d", w.times[moment{what, when}])
		}
	}
	w.Logf("kills (SIGKILL): %d; not done, without an answer, answered:%s\nCertificates: %d, placed a second time because nobody knew of the first: %d, longest time for a kill: %v",
		w.kills, text.String(), w.orders, w.twice, w.longest.Round(time.Millisecond))
}
