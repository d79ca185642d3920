package policies_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

var (
	histories = flag.Int("histories", 60, "how many random histories of a request are tried on a server")
	seed      = flag.Uint64("seed", 28, "what the random histories follow from")
)

const (
	// lanes is how many histories there are at the same time.
	lanes = 8
	// starts is how often the server is started.
	starts = 3
	// patience is how long a history waits for what must happen.
	patience = 3 * time.Minute
)

// TestHistories tries random histories of requests on a real server: approvals
// in all ways in which a request can be written, denials, forged, copied,
// changed and removed conditions, stale writes, dry runs, people who cannot help,
// new requests of the same name, changes of the policy, overrides and restarts. A
// certificate is never issued unless enough different people have approved this
// very request, or somebody with the right to it has overridden the policy. If they
// do, it is issued in the end.
func TestHistories(t *testing.T) {
	e := startElectorate(t)
	w := &past{electorate: e, admin: e.client(e.server.Admin(t)), others: e.others(), people: []*voter{
		e.person(true, "alice", "pki", "dev"), e.person(true, "bob", "pki"), e.person(true, "carol", "security"),
		e.person(true, "dave", "security", "pki"), e.person(true, "erin", "dev"),
	}, boss: e.person(true, "grace", "ops")}
	w.boss.overrides = true
	w.people = append(w.people, w.boss)
	var all []*lane
	for n := range lanes {
		all = append(all, w.newLane(n))
	}
	for round := range starts {
		if round > 0 {
			e.restart()
		}
		w.limit = int64(*histories * (round + 1) / starts)
		group, ctx := errgroup.WithContext(t.Context())
		for _, l := range all {
			group.Go(func() error { return l.run(ctx, round < starts-1) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d histories: %d requests approved, %d of them by chance; %d writes accepted, %d refused; %d times there were too few people but for an override",
		w.begun.Load(), w.approved.Load(), w.byChance.Load(), w.accepted.Load(), w.refused.Load(), w.overridden.Load())
	// A test in which nothing is ever approved, or nothing refused, proves nothing.
	if w.byChance.Load()*20 < w.begun.Load() || w.refused.Load() < w.begun.Load() {
		t.Error("the histories have too few approvals or refusals")
	}
}

// past is what all histories share.
type past struct {
	*electorate
	admin          kubernetes.Interface
	people, others []*voter
	// boss has the right to override policies.
	boss *voter

	limit                                                    int64 // of begun
	begun, approved, byChance, accepted, refused, overridden atomic.Int64
}

// lane is where one history follows the other, with a requester and a policy of
// its own.
type lane struct {
	*past
	name      string
	requester *voter
	voters    []*voter
	request   *csr
	// foreign violates the policy.
	foreign *csr
	// required is the requirement in force; nil if there is none.
	required *v1alpha1.PeopleRequirement
	revision int
	current  *history
}

// requirements are those between which administrators change; nil is none.
var requirements = []*v1alpha1.PeopleRequirement{
	new(requirement(2)), new(requirement(3)), new(requirement(2, "1 of pki", "1 of security")), new(requirement(3, "2 of pki")), nil,
	new(overridable(3)), new(overridable(2, "1 of pki", "1 of security")), new(overridable(3, "2 of pki")),
}

func (w *past) newLane(n int) *lane {
	w.Helper()
	l := &lane{past: w, name: fmt.Sprintf("lane-%d", n), required: requirements[0]}
	l.requester = w.person(false, "requester-of-"+l.name, "pki", "security")
	l.voters = append(append([]*voter{l.requester}, w.people...), w.others...)
	w.mayOverride(l.name, l.requester.name, w.boss.name)
	key := apitest.NewKey(w.T)
	l.request = apitest.NewCSR(w.T, l.name, signerName, pki.Subject{CommonName: l.name}, key)
	l.foreign = apitest.NewCSR(w.T, l.name+"-foreign", signerName, pki.Subject{CommonName: l.name, DNSNames: []string{"www.example.org"}}, key)
	w.policy(l.name, func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect = v1alpha1.PolicyLimit
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Match.Requesters = &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: []string{l.requester.name}}}
		s.Certificate = &v1alpha1.CertificateConditions{Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"shop.example.com"}}}}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: l.required}
	})
	return l
}

// run goes on with histories until the limit is reached. With leaveOne, it leaves
// one more unfinished.
func (l *lane) run(ctx context.Context, leaveOne bool) error {
	for {
		if l.current != nil {
			if err := l.current.end(ctx); err != nil {
				return l.current.failed(err)
			}
		}
		n := l.begun.Add(1)
		if l.current = newHistory(l, n); n > l.limit {
			break
		}
	}
	if !leaveOne {
		l.begun.Add(-1)
		l.current = nil
		return nil
	}
	for range l.current.left / 2 {
		if err := l.current.step(ctx); err != nil {
			return l.current.failed(err)
		}
	}
	return nil
}

// change changes the requirement, and returns when it is in force.
func (l *lane) change(ctx context.Context, to *v1alpha1.PeopleRequirement) error {
	l.required = to
	l.revision++
	message := fmt.Sprintf("revision %d.", l.revision)
	spec := map[string]any{"message": message, "mode": v1alpha1.PolicyOff}
	if to != nil {
		people := map[string]any{"count": to.Count, "from": to.From, "override": nil} // a merge patch removes what is null
		if to.Override != "" {
			people["override"] = to.Override
		}
		spec["mode"], spec["approval"] = v1alpha1.PolicyEnforce, map[string]any{"people": people}
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	path := "/apis/certplane.dev/v1alpha1/certificatepolicies/" + l.name
	if err := l.admin.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(path).Body(data).Do(ctx).Error(); err != nil {
		return fmt.Errorf("changing the policy: %w", err)
	}
	return until(ctx, "the policy is in force", func(ctx context.Context) (bool, error) {
		_, err := l.requester.client.CertificatesV1().CertificateSigningRequests().Create(ctx, l.foreign, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsForbidden(err) {
			return false, err
		}
		return err == nil && to == nil || err != nil && to != nil && strings.Contains(err.Error(), message), nil
	})
}
