package approverpolicy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
	certplane "github.com/certplane/certplane/internal/run/server"
)

// besidePolicies are those of certplane. approver-policy permits the names that
// have the label "yes", whatever these say, for all issuers but "unselected".
var besidePolicies = map[string]string{
	"zone":       `{effect: Limit, match: {signers: ["clusterissuers.cert-manager.io/*"]}, certificate: {names: {dns: {zones: [good.example]}}}}`,
	"two-people": `{effect: Limit, match: {kinds: [CertificateRequest], signers: [clusterissuers.cert-manager.io/people]}, approval: {mode: People, people: {count: 2}}}`,
	"open": `{effect: Allow, match: {signers: [clusterissuers.cert-manager.io/open]}, approval: {mode: Automatic}, certificate: {names: {dns: {zones: [good.example]}},
		usages: {allowed: [digital signature, key encipherment]}, keys: {types: [ECDSAP256]}}}`,
	"closed": `{effect: DenyRest, match: {signers: [clusterissuers.cert-manager.io/closed]}}`,
}

var besideIssuers = []string{"open", "people", "closed", "free", "unselected"}

// The program approver-policy decides about the same requests as certplane, at the same
// time. Regardless of the order, no request ends with a decision that certplane's policies
// forbid.
func TestBeside(t *testing.T) {
	t.Run("both decide", func(t *testing.T) {
		b := startBeside(t, 200, true)
		b.submit(b.disturb)
		b.settled()
		if !b.log.has("Reconciler error", "forbidden", refusals[v1alpha1.OutcomeDeny]) {
			t.Error("approver-policy was never first with a request that certplane denies")
		}
		apitest.Eventually(t, "certplane tells of the other approver", func() bool {
			return b.hasEvent(installation, approverpolicy.LeaseName, "OtherApprover")
		})
	})
	t.Run("only approver-policy decides", func(t *testing.T) {
		b := startBeside(t, 60, false)
		b.submit(func(int) {})
		b.settled()
	})
}

// beside is a world in which approver-policy runs beside certplane.
type beside struct {
	*world
	// ours: certplane decides too.
	ours     bool
	set      *certpolicy.Set
	log      *logBuffer
	requests []*cmv1.CertificateRequest
}

// startBeside makes random requests, which are not sent yet.
func startBeside(t *testing.T, count int, ours bool) *beside {
	t.Helper()
	w := newWorld(t, func(cfg *certplane.Config) {
		if ours {
			cfg.Controllers = []string{"*"}
		}
		// What is refused when it is created cannot be decided about.
		cfg.Policy.CreateChecks = false
	})
	b := &beside{world: w, ours: ours}
	b.server.Grant(t, "bea",
		rule([]string{"create"}, "cert-manager.io", "certificaterequests"),
		rbacv1.PolicyRule{Verbs: []string{"use"}, APIGroups: []string{approverpolicy.GroupName}, Resources: []string{approverpolicy.Resource}})
	b.log = b.startProgram()
	for _, issuer := range besideIssuers[:4] {
		p := forIssuer(issuer, issuer, `{allowed: {dnsNames: {values: ["*.yes.*"]}}}`)
		p.Spec.Selector.IssuerRef.Kind = new("ClusterIssuer")
		b.policy(p)
	}
	var declared []*v1alpha1.CertificatePolicy
	for name, spec := range besidePolicies {
		p := &v1alpha1.CertificatePolicy{}
		if p.Name = name; yaml.UnmarshalStrict([]byte(spec), &p.Spec) != nil {
			t.Fatalf("%s: cannot be read", name)
		}
		b.declare(p)
		declared = append(declared, p)
	}
	b.set = certpolicy.NewSet(declared, nil)
	random := generator{Rand: rand.New(rand.NewPCG(seedOf(t), 0))}
	for i := range count {
		dnsName := fmt.Sprintf("r.%s.%s.example", pick(random, []string{"yes", "no"}), pick(random, []string{"good", "good", "bad"}))
		issuer := cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: besideIssuers[i%len(besideIssuers)]}
		b.requests = append(b.requests, newRequest(fmt.Sprintf("r-%d", i), issuer, dnsName, keys()[pick(random, []int{2, 2, 5})]))
	}
	return b
}

// declare creates a policy of certplane, and waits until it is in force.
func (w *world) declare(p *v1alpha1.CertificatePolicy) {
	w.t.Helper()
	w.create(p)
	apitest.Eventually(w.t, p.Name+" is in force", func() bool {
		w.get(p)
		return meta.IsStatusConditionTrue(p.Status.Conditions, "Ready")
	})
}

// disturb adds a policy about nothing. Certplane denies by Allow and DenyRest
// policies only when these have not changed for a while, so approver-policy is
// first with some requests.
func (b *beside) disturb(i int) {
	b.create(&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("noise-%d", i)}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyDenyRest, Match: v1alpha1.PolicyMatch{Signers: []string{"example.com/noise"}},
	}})
}

// submit sends the requests, several at a time, and calls the function with the number of
// each part.
func (b *beside) submit(meanwhile func(int)) {
	b.t.Helper()
	cfg := b.server.As(b.t, "bea")
	cfg.QPS = -1
	bea, err := client.New(cfg, client.Options{Scheme: scheme(b.t)})
	if err != nil {
		b.t.Fatal(err)
	}
	i := 0
	for part := range slices.Chunk(b.requests, 10) {
		meanwhile(i)
		var senders sync.WaitGroup
		for _, cr := range part {
			senders.Go(func() {
				if err := bea.Create(b.t.Context(), cr); err != nil {
					b.t.Errorf("creating %s: %v", cr.Name, err)
				}
			})
		}
		senders.Wait()
		i++
	}
}

// ends returns how a request can end: with the decision of either program that decides
// about it. A request that neither may decide about stays open, which is "".
func (b *beside) ends(cr *cmv1.CertificateRequest, outcome v1alpha1.DecisionOutcome) (ends []string) {
	if permitted, selected := b.permits(cr); selected && !permitted {
		ends = append(ends, "Denied")
	} else if selected && (outcome == v1alpha1.OutcomeApprove || outcome == v1alpha1.OutcomeLeave) {
		ends = append(ends, "Approved")
	}
	if b.ours && outcome == v1alpha1.OutcomeDeny {
		ends = append(ends, "Denied")
	} else if b.ours && outcome != v1alpha1.OutcomeNeedPeople {
		ends = append(ends, "Approved")
	}
	if len(ends) == 0 {
		return []string{""}
	}
	return ends
}

// permits reports whether a policy of approver-policy permits a request, and
// whether one is about it.
func (b *beside) permits(cr *cmv1.CertificateRequest) (permitted, selected bool) {
	if cr.Spec.IssuerRef.Name == "unselected" {
		return false, false
	}
	return strings.HasPrefix(must(certmanager.ParseRequest(cr.Spec.Request)).DNSNames[0], "r.yes."), true
}

// settled waits until all who decide about the requests have done so, or have been
// refused, and checks how each of them ends.
func (b *beside) settled() {
	b.t.Helper()
	outcomes := map[string]int{}
	for _, cr := range b.requests {
		d := b.set.Decide(certpolicy.Input{Request: request.FromCertificateRequest(cr), Time: time.Now()})
		ends := b.ends(cr, d.Outcome)
		permitted, selected := b.permits(cr)
		apitest.Eventually(b.t, fmt.Sprintf("%s, %s by certplane, is settled", cr.Name, d.Outcome), func() bool {
			b.get(cr)
			switch {
			case endOf(cr) != "":
				return true
			case ends[0] != "":
				return false
			case permitted:
				return b.log.has(`"name":"`+cr.Name+`"`, "Reconciler error", "forbidden", refusals[d.Outcome])
			case !selected:
				return b.hasEvent(namespace, cr.Name, "Unprocessed")
			}
			return false
		})
		b.get(cr)
		if !slices.Contains(ends, endOf(cr)) {
			b.t.Errorf("%s of %s is %q, want one of %q; certplane decides: %s", cr.Name, cr.Spec.IssuerRef.Name, endOf(cr), ends, must(yaml.Marshal(d)))
		}
		outcomes[fmt.Sprintf("certplane: %s, approver-policy permits: %t of %t, end: %q", d.Outcome, permitted, selected, endOf(cr))]++
	}
	b.t.Log(outcomes)
}

// refusals are the errors that approver-policy gets when it tries to approve such
// requests.
var refusals = map[v1alpha1.DecisionOutcome]string{
	v1alpha1.OutcomeDeny:       "certificate policy",
	v1alpha1.OutcomeNeedPeople: "service accounts do not count as people",
}

func endOf(cr *cmv1.CertificateRequest) string {
	for _, of := range []cmv1.CertificateRequestConditionType{cmv1.CertificateRequestConditionApproved, cmv1.CertificateRequestConditionDenied} {
		if certmanager.RequestIs(cr, of) {
			return string(of)
		}
	}
	return ""
}

func (b *beside) hasEvent(namespace, name, reason string) bool {
	var list eventsv1.EventList
	if err := b.api.List(b.t.Context(), &list, client.InNamespace(namespace)); err != nil {
		b.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == name && e.Reason == reason })
}
