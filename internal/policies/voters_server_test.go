package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Of fifty people who approve at once where five must, none is lost whose
// approval was recorded, and the request is approved once: half of them approve
// as kubectl does, the others by patches without a version.
func TestFiftyVoters(t *testing.T) {
	const number, needed = 50, 5
	e := startElectorate(t)
	e.policy("five", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate = v1alpha1.PolicyLimit, nil
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: new(requirement(needed))}
	})
	var people []*voter
	for n := range number {
		people = append(people, e.person(true, fmt.Sprintf("person-%d", n)))
	}
	stored := e.csr("asked-of-all")
	changes, err := e.api.CertificatesV1().CertificateSigningRequests().Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: stored.ResourceVersion, FieldSelector: "metadata.name=" + stored.Name,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	answered := make([]*csr, number)
	group, ctx := errgroup.WithContext(t.Context())
	for n, by := range people {
		way := put
		if n%2 == 1 {
			way = ways[2+n/2%(len(ways)-2)].write
		}
		group.Go(func() (err error) {
			answered[n], err = untilApproved(ctx, by, stored.Name, way)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	apitest.Issued(t, e.api, stored)

	final := e.wantGrowing(changes)
	votes, err := voted(final.Status.Conditions)
	if err != nil {
		t.Fatal(err)
	}
	if len(votes) != needed {
		t.Errorf("there are %d votes: %s", len(votes), short(final.Status.Conditions))
	}
	counted := map[string]bool{}
	for _, vote := range votes {
		counted[vote.User] = true
	}
	if len(counted) != len(votes) {
		t.Errorf("somebody has several votes: %s", short(final.Status.Conditions))
	}
	for n, by := range people {
		if answered[n] == nil || counted[by.name] {
			continue // somebody else was first, or the vote is there
		}
		// Patches are tried again by the server: somebody else was first.
		if late := answered[n].Status.Conditions; !has(late, "Approved") || strings.Contains(fmt.Sprint(ofVotes(late)), by.name+" ") {
			t.Errorf("%s was answered %s, and the vote is lost", by.name, short(late))
		}
	}
}

// untilApproved approves as kubectl does: after a conflict, again, and never
// what is approved. It returns the answer; nil if there was nothing to do.
func untilApproved(ctx context.Context, by *voter, name string, write writeFunc) (answer *csr, err error) {
	err = until(ctx, by.name+" has approved", func(ctx context.Context) (bool, error) {
		read, err := by.client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil || has(read.Status.Conditions, "Approved") {
			return true, err
		}
		answer, err = write(ctx, by, "approval", with(read, approval(by)), metav1.UpdateOptions{})
		return !apierrors.IsConflict(err), unexpected(err)
	})
	return answer, err
}

// wantGrowing reads all versions of a request up to the one with the
// certificate: each has the votes of the one before and at most one more, the
// approval never goes again, and nobody rewrites it.
func (e *electorate) wantGrowing(changes watch.Interface) *csr {
	e.Helper()
	last := &csr{}
	for event := range changes.ResultChan() {
		current, ok := event.Object.(*csr)
		if !ok {
			e.Fatalf("watching: %v", event.Object)
		}
		before, now := ofVotes(last.Status.Conditions), ofVotes(current.Status.Conditions)
		for kind, message := range before {
			if now[kind] != message {
				e.Errorf("%s was %q, and is %q", kind, message, now[kind])
			}
		}
		if len(now) > len(before)+1 {
			e.Errorf("one write has added %d votes", len(now)-len(before))
		}
		if before, now := approvalIn(last), approvalIn(current); before != (condition{}) && now.LastTransitionTime != before.LastTransitionTime {
			e.Errorf("the request was approved again: %+v, before %+v", now, before)
		}
		if last = current; len(current.Status.Certificate) > 0 {
			return current
		}
	}
	e.Fatal("the watch has ended")
	return nil
}

// ofVotes returns the messages of votes by their types.
func ofVotes(conditions []condition) map[string]string {
	votes := map[string]string{}
	for _, c := range conditions {
		if quorum.IsVote(string(c.Type)) {
			votes[string(c.Type)] = c.Message
		}
	}
	return votes
}

func approvalIn(r *csr) condition {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			return c
		}
	}
	return condition{}
}
