package acme

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/util/solverpicker"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/policy/request"
)

// rows is how many random cases are compared with cert-manager's own code.
const rows = 20000

// random makes objects that have much in common, so that what matters is close.
type random struct{ *rand.Rand }

// newRandom returns a source whose seed is in the log of a failed test.
func newRandom(t *testing.T) random {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return random{rand.New(rand.NewPCG(seed, 0))}
}

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) often(percent int) bool { return r.IntN(100) < percent }

// some returns up to most of a list, in any order.
func some[T any](r random, most int, from ...T) (chosen []T) {
	for _, i := range r.Perm(len(from))[:r.IntN(min(most, len(from))+1)] {
		chosen = append(chosen, from[i])
	}
	return chosen
}

func (r random) labels() map[string]string {
	labels := map[string]string{}
	for _, key := range some(r, 3, "a", "b", "c") {
		labels[key] = pick(r, "", "1", "1", "1", "2")
	}
	return labels
}

func (r random) domain() string {
	return pick(r, "example.com", "*.example.com", "a.example.com", "b.a.example.com", "*.a.example.com", "Example.com", "xample.com",
		"com", "example.org", "127.0.0.1", "2001:db8::1", "")
}

func (r random) solver(n int) acmev1.ACMEChallengeSolver {
	solver := acmev1.ACMEChallengeSolver{}
	switch r.IntN(8) {
	case 0, 1, 2:
		solver.HTTP01 = &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{Name: fmt.Sprint("solver-", n)}}
	case 3, 4, 5, 6:
		solver.DNS01 = &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: fmt.Sprint("solver-", n)}}
	}
	if r.often(80) {
		solver.Selector = &acmev1.CertificateDNSNameSelector{}
	}
	if solver.Selector == nil {
		return solver
	}
	if r.often(50) {
		solver.Selector.MatchLabels = r.labels()
	}
	if r.often(40) {
		for range r.IntN(4) {
			solver.Selector.DNSNames = append(solver.Selector.DNSNames, r.domain())
		}
	}
	if r.often(50) {
		solver.Selector.DNSZones = some(r, 4, "example.com", "a.example.com", "EXAMPLE.com", "com", "xample.com", "*.example.com", "b.a.example.com", "org", ".example.com", "example.com.")
	}
	return solver
}

func (r random) offered() []acmev1.ACMEChallenge {
	var offered []acmev1.ACMEChallenge
	for i, kind := range some(r, 4, "http-01", "dns-01", "tls-alpn-01", "dns-01") {
		offered = append(offered, acmev1.ACMEChallenge{URL: fmt.Sprint("https://ca.example/", i), Type: kind, Token: fmt.Sprint("token-", i)})
	}
	return offered
}

// The solver, and the challenge that it solves, are those that cert-manager
// chooses.
func TestSolverChoice(t *testing.T) {
	r := newRandom(t)
	none := 0
	for range rows {
		var solvers []acmev1.ACMEChallengeSolver
		for n := range r.IntN(6) {
			solvers = append(solvers, r.solver(n))
		}
		domain, offered := r.domain(), r.offered()
		o := &acmev1.Order{ObjectMeta: metav1.ObjectMeta{Labels: r.labels()}}
		solver, challenge := solverpicker.Pick(t.Context(), domain, offered, solvers, o)
		got := order.Choose(solvers, domain, o.Labels, offered)
		switch {
		case solver == nil:
			none++
			if got.Index >= 0 {
				t.Fatalf("%s: chosen %d, by cert-manager none\n%s", domain, got.Index, describe(solvers, o, offered))
			}
		case got.Index < 0 || !reflect.DeepEqual(solvers[got.Index], *solver) || got.Challenge != *challenge:
			t.Fatalf("%s: chosen %d for %v, by cert-manager %+v for %v\n%s", domain, got.Index, got.Challenge, solver, challenge, describe(solvers, o, offered))
		}
	}
	if none > rows*3/4 {
		t.Errorf("only %d of %d cases have a solver", rows-none, rows)
	}
}

func describe(solvers []acmev1.ACMEChallengeSolver, o *acmev1.Order, offered []acmev1.ACMEChallenge) string {
	text := &strings.Builder{}
	for i, s := range solvers {
		fmt.Fprintf(text, "solver %d: http01 %v, dns01 %v, selector %+v\n", i, s.HTTP01 != nil, s.DNS01 != nil, s.Selector)
	}
	fmt.Fprintf(text, "labels %v, offered %v", o.Labels, offered)
	return text.String()
}

// objectName returns a name that is as long as those that are cut.
func (r random) objectName() string {
	length := pick(r, 1+r.IntN(120), 48+r.IntN(8))
	name := make([]byte, length)
	for i := range name {
		name[i] = pick(r, "abcxyz0189--.."[r.IntN(14)], "a-."[r.IntN(3)])
	}
	name[0], name[length-1] = 'a', 'z'
	return string(name)
}

func (r random) issuerRef() cmmeta.IssuerReference {
	return cmmeta.IssuerReference{Name: pick(r, "le", "a<b&c", ""), Kind: pick(r, "", "Issuer", "ClusterIssuer"), Group: pick(r, "", "cert-manager.io")}
}

// The names of Orders and Challenges are those that cert-manager gives.
func TestNames(t *testing.T) {
	r := newRandom(t)
	for range rows {
		base := r.objectName()
		spec := acmev1.OrderSpec{
			Request: []byte(r.objectName()), IssuerRef: r.issuerRef(), CommonName: r.domain(), DNSNames: some(r, 3, "a.example.com", "*.example.com", "ü", "<>"),
			IPAddresses: some(r, 2, "127.0.0.1", "::1"), Profile: pick(r, "", "shortlived"), Replaces: pick(r, "", "a.b"),
		}
		if r.often(30) {
			spec.Duration = &metav1.Duration{Duration: time.Duration(r.Int64N(int64(1000 * time.Hour)))}
		}
		hashed := spec.DeepCopy()
		hashed.Request = nil
		var object any = hashed
		if len(base) >= 52 {
			object = struct {
				CRName string            `json:"certificateRequestName"`
				Spec   *acmev1.OrderSpec `json:"spec"`
			}{base, hashed}
		}
		want, err := apiutil.ComputeName(base, object)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := order.Name(request.CertificateRequests, base, spec); err != nil || got != want {
			t.Fatalf("the Order of %q is %q, %v; by cert-manager %q\n%+v", base, got, err, want, spec)
		}
		challenge := acmev1.ChallengeSpec{
			URL: r.objectName(), AuthorizationURL: r.objectName(), DNSName: r.domain(), Wildcard: r.often(50),
			Type: pick(r, acmev1.ACMEChallengeTypeHTTP01, acmev1.ACMEChallengeTypeDNS01), Token: r.objectName(), Solver: r.solver(0), IssuerRef: r.issuerRef(),
		}
		if want, err = apiutil.ComputeName(base, &challenge); err != nil {
			t.Fatal(err)
		}
		challenge.Key = "key"
		if got, err := order.ChallengeName(base, challenge); err != nil || got != want {
			t.Fatalf("the Challenge of %q is %q, %v; by cert-manager %q\n%+v", base, got, err, want, challenge)
		}
	}
}
