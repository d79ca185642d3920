package crash

import (
	"crypto/sha256"
	"encoding/base64"
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
	"github.com/certplane/certplane/internal/run/server"
)

// acmeRole is where a server finds the world of ACME.
type acmeRole struct {
	// Nameserver answers all queries.
	Nameserver string
	// Responder is where HTTP-01 challenges are answered.
	Responder string
}

func (r acmeRole) configure(cfg *server.Config) {
	cfg.ACME.AllowLoopback = true
	cfg.ACME.HTTP01.Listen, cfg.ACME.HTTP01.SelfCheck = []string{r.Responder}, selfcheck.Local
	cfg.ACME.DNS01.RecursiveNameservers, cfg.ACME.DNS01.RecursiveNameserversOnly = []string{r.Nameserver}, true
	cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
}

// acmeWorld is a server, and in this process a CA that validates challenges and
// a name server that takes updates. Both kill the server at the moment for which
// it is armed.
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

	// name is the name of the current round, plan the step at which the server is to be
	// killed, and struck the step at which it was killed.
	name   string
	plan   []strike
	struck []moment

	mu      sync.Mutex // guards all below
	changed *sync.Cond // is told when armed has changed, or the process is dead
	process *process   // the one that was started last
	armed   *armed     // nil if the server is not to be killed
	// tokens are those of HTTP-01 challenges that the CA has validated, with the
	// name that it asked for.
	tokens map[string]string
}

// tsigKey signs the dynamic updates of the server.
var tsigKey = base64.StdEncoding.EncodeToString([]byte("a key for updates of example.com"))

func newACMEWorld(t *testing.T, o acmetest.Options) *acmeWorld {
	t.Helper()
	w := &acmeWorld{T: t, random: rand.New(rand.NewPCG(1, 1)), times: map[moment]int{}, tokens: map[string]string{}}
	w.changed = sync.NewCond(&w.mu)
	w.names = dnstest.Start(t, dnstest.Options{
		Keys:    map[string]dnstest.Key{"certplane.": {Algorithm: dns.HmacSHA256, Secret: tsigKey}},
		Updated: w.updated,
	}, "example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60", "example.com. 300 IN NS ns1.example.com.")
	w.names.Break("update", dns.TypeNone, w.updateLost)
	o.Hook, o.Validate = w.requested, w.validate
	w.ca = acmetest.Start(t, o)
	t.Cleanup(func() { // the process is dead: both servers can end
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	w.role = role{Dir: shortDir(t), ACME: &acmeRole{Nameserver: w.names.Addr, Responder: ownAddress(t)}}
	w.restart()
	w.create(&corev1.Secret{ObjectMeta: named("tsig"), StringData: map[string]string{"key": tsigKey}})
	return w
}

// ownAddress returns a loopback address that no other process takes while a server is
// dead.
func ownAddress(t *testing.T) string {
	t.Helper()
	address := apitest.FreeAddress(t)
	if runtime.GOOS != "linux" { // where all of 127.0.0.0/8 is loopback
		return address
	}
	return fmt.Sprintf("127.%d.%d.%d%s", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254), address[strings.LastIndex(address, ":"):])
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: name}
}

// validate fetches the answer to a challenge. If no server answers, the CA tries again.
func (w *acmeWorld) validate(v acmetest.Validation) acmetest.Verdict {
	if w.lost(validating) {
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

// restart starts the server after it was killed, and returns when it is ready. It
// may be killed again before that.
func (w *acmeWorld) restart() {
	w.Helper()
	w.settle()
	process := w.start()
	select {
	case <-process.ready:
	case <-process.ended:
		if !w.isBeingKilled() {
			w.Fatalf("the server ended before it was ready: %v\n%s", process.err, process.log.text())
		}
		return
	case <-time.After(timeout):
		w.Fatalf("the server did not get ready within %v\n%s", timeout, process.log.text())
	}
	kinds, err := kinds()
	if err != nil {
		w.Fatal(err)
	}
	if w.api, err = client.New(adminConfig(w.T, w.role.Dir), client.Options{Scheme: kinds, Mapper: acmeMapper()}); err != nil {
		w.Fatal(err)
	}
}

func (w *acmeWorld) restartIfDead() {
	w.Helper()
	if !w.current().alive() {
		w.restart()
	}
}

// settle waits until nothing is being done any more that the dead server has asked
// for, so that it is not taken for a step of the next one.
func (w *acmeWorld) settle() {
	w.Helper()
	w.ca.AwaitDisconnection()
	query := new(dns.Msg).SetQuestion("example.com.", dns.TypeSOA) // is read after all that was sent before
	if _, err := dns.Exchange(query, w.names.Addr); err != nil {
		w.Fatal(err)
	}
}

// isBeingKilled reports whether the armed moment has come.
func (w *acmeWorld) isBeingKilled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed != nil && w.armed.claimed
}

// start starts the server. No request of it comes before it is the current one.
func (w *acmeWorld) start() *process {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process = start(w.T, w.role)
	return w.process
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

// request creates an issuer with a separate account, and a Certificate. The responder
// validates its last name.
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
func (w *acmeWorld) reached(a *armed) bool {
	w.Helper()
	w.await(w.name, func() bool {
		select {
		case <-a.struck:
			return true
		default:
			return w.isFinished(w.name)
		}
	})
	return !w.disarm()
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
			w.Fatalf("%s waits, killed at %s\n%s\n%s", name, w.killedAt(), w.describe(name), w.current().log.text())
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
