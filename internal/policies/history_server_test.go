package policies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// history is what happens to a request, and what is known of it without the code
// under test.
type history struct {
	*lane
	number int64
	random *rand.Rand
	// left is how many steps there still are.
	left int
	// stored is the request as it was read last; stale are earlier reads, also of
	// earlier requests of the name; votes are all that were ever seen.
	stored *csr
	stale  []*csr
	votes  []condition
	// by are the groups of those who have approved this very request and whose
	// approvals can count, anybody is set if anybody at all has approved it.
	by      map[string][]string
	anybody bool
	// overrides: somebody has approved it who had the right to override the policy,
	// after saying why.
	overrides bool
	// inForce are the requirements that may have been asked since the request was
	// approved, or is being approved.
	inForce    []*v1alpha1.PeopleRequirement
	isApproved bool
	told       []string
}

func newHistory(l *lane, number int64) *history {
	random := rand.New(rand.NewPCG(*seed, uint64(number)))
	return &history{lane: l, number: number, random: random, left: 1 + random.IntN(12)}
}

func (h *history) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

func (h *history) failed(err error) error {
	return fmt.Errorf("history %d of -seed=%d: %w:\n%s", h.number, *seed, err, strings.Join(h.told, "\n"))
}

// until waits until something has happened.
func until(ctx context.Context, what string, holds wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, holds); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// create creates the request, after deleting the one that is there.
func (h *history) create(ctx context.Context) error {
	if h.stored != nil {
		if err := h.look(ctx); err != nil { // its certificate may have come late
			return err
		}
	}
	requests := h.admin.CertificatesV1().CertificateSigningRequests()
	if err := requests.Delete(ctx, h.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the request: %w", err)
	}
	created, err := h.requester.client.CertificatesV1().CertificateSigningRequests().Create(ctx, h.request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	h.stored, h.by, h.anybody, h.overrides, h.isApproved, h.inForce = created, map[string][]string{}, false, false, false, nil
	h.tell("create %s", created.UID)
	return nil
}

// end takes the steps that are left. Then everybody approves a new request.
func (h *history) end(ctx context.Context) error {
	for h.left > 0 {
		if err := h.step(ctx); err != nil {
			return err
		}
	}
	if err := h.create(ctx); err != nil {
		return err
	}
	for _, n := range h.random.Perm(len(h.people)) {
		if h.isApproved {
			break
		}
		if err := h.approveUntilStored(ctx, h.people[n], ways[h.random.IntN(len(ways))]); err != nil {
			return err
		}
	}
	if !h.isApproved {
		return fmt.Errorf("everybody has approved, and the conditions are %s", short(h.stored.Status.Conditions))
	}
	return until(ctx, "there is a certificate", func(ctx context.Context) (bool, error) {
		err := h.look(ctx)
		if err == nil && has(h.stored.Status.Conditions, "Failed") {
			err = fmt.Errorf("the conditions are %s", short(h.stored.Status.Conditions))
		}
		return len(h.stored.Status.Certificate) > 0, err
	})
}

// approveUntilStored approves as kubectl does: after a conflict, again.
func (h *history) approveUntilStored(ctx context.Context, by *voter, way way) error {
	return until(ctx, "the approval is stored", func(ctx context.Context) (bool, error) {
		if err := h.look(ctx); err != nil || h.isApproved {
			return true, err
		}
		answer, err := h.write(ctx, by, way, "approval", with(h.stored, approval(by)), metav1.UpdateOptions{})
		if err == nil {
			err = h.look(ctx)
		}
		return !apierrors.IsConflict(answer), err
	})
}

func approval(by *voter) condition {
	return condition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "approved by " + by.name}
}

// with returns a request with one more condition.
func with(r *csr, c condition) *csr {
	r = r.DeepCopy()
	r.Status.Conditions = append(r.Status.Conditions, c)
	return r
}

// step does something at random, and looks what became of it.
func (h *history) step(ctx context.Context) error {
	h.left--
	if h.stored == nil {
		if err := h.create(ctx); err != nil {
			return err
		}
	}
	read, by := h.stored, h.voters[h.random.IntN(len(h.voters))]
	if len(h.stale) > 0 && h.random.IntN(4) == 0 {
		read = h.stale[h.random.IntN(len(h.stale))]
	}
	way, what := ways[h.random.IntN(len(ways))], h.random.IntN(24)
	options := metav1.UpdateOptions{}
	if h.random.IntN(12) == 0 {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var err error
	switch {
	case what == 0:
		err = h.create(ctx)
	case what < 3:
		to := requirements[h.random.IntN(len(requirements))]
		h.tell("policy %+v", to)
		h.inForce = append(h.inForce, to)
		err = h.change(ctx, to)
	case what == 3 && h.random.IntN(2) == 0:
		_, err = h.write(ctx, by, way, "approval", with(read, condition{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Test"}), options)
	case what < 6:
		err = h.sayWhy(ctx, by, way)
	case what < 10:
		_, err = h.write(ctx, by, way, []string{"approval", "status", ""}[h.random.IntN(3)], h.forged(read), options)
	default:
		_, err = h.write(ctx, by, way, "approval", with(read, approval(by)), options)
	}
	if err != nil {
		return err
	}
	return h.look(ctx)
}

// sayWhy has somebody set the annotation for overrides, and sometimes approve. Only
// who may override the policy can set it.
func (h *history) sayWhy(ctx context.Context, by *voter, way way) error {
	if h.random.IntN(2) == 0 {
		by = h.boss
	}
	err := annotate(ctx, by, "", h.name, fmt.Sprintf("outage %d", len(h.told)))
	h.tell("%s says why: %v", by.name, err)
	if err == nil && !by.overrides {
		return fmt.Errorf("%s has said why the policy is overridden", by.name)
	}
	if err != nil || h.random.IntN(3) == 0 {
		return unexpected(err)
	}
	if err := h.look(ctx); err != nil {
		return err
	}
	_, err = h.write(ctx, by, way, "approval", with(h.stored, approval(by)), metav1.UpdateOptions{})
	return err
}

// forged returns the request as somebody may send it who wants to betray.
func (h *history) forged(read *csr) *csr {
	sent := read.DeepCopy()
	list := &sent.Status.Conditions
	for range 1 + h.random.IntN(2) {
		switch h.random.IntN(5) {
		case 0:
			if len(*list) > 0 {
				i := h.random.IntN(len(*list))
				*list = slices.Delete(*list, i, i+1)
			}
		case 1: // a vote, maybe for an earlier request, under any number
			if len(h.votes) > 0 {
				copied := h.votes[h.random.IntN(len(h.votes))]
				copied.Type = certificatesv1.RequestConditionType(quorum.VoteType(1 + h.random.IntN(4)))
				*list = append(*list, copied)
			}
		case 2:
			status := []corev1.ConditionStatus{"True", "False", "Unknown"}[h.random.IntN(3)]
			*list = append(*list, condition{Type: certificatesv1.CertificateApproved, Status: status, Reason: "Test"})
		case 3: // a vote of somebody else
			if len(h.votes) > 0 {
				changed := h.votes[h.random.IntN(len(h.votes))]
				changed.Type = certificatesv1.RequestConditionType(quorum.VoteType(1 + h.random.IntN(4)))
				changed.Message = strings.Replace(changed.Message, "sealed v1.", "sealed v1.0", 1)
				*list = append(*list, changed)
			}
		case 4:
			for i := range *list {
				(*list)[i].Message = "x approved (sealed nonsense)"
			}
		}
	}
	return sent
}

// write writes the request. The answer is that of the server, the error is of
// the test.
func (h *history) write(ctx context.Context, by *voter, way way, subresource string, sent *csr, options metav1.UpdateOptions) (answer, err error) {
	approves := subresource == "approval" && has(sent.Status.Conditions, "Approved")
	if approves && !h.isApproved {
		h.inForce = []*v1alpha1.PeopleRequirement{h.required}
	}
	_, answer = way.write(ctx, by, subresource, sent, options)
	h.tell("%s by %s %v to /%s %v: %s: %v", way.name, by.name, by.groups, subresource, options.DryRun, short(sent.Status.Conditions), answer)
	switch {
	case answer != nil:
		h.refused.Add(1)
	case approves && len(options.DryRun) == 0:
		h.anybody = true
		if by.able {
			h.by[by.name] = by.groups
		}
		why := sent.Annotations[v1alpha1.AnnotationOverride] + h.stored.Annotations[v1alpha1.AnnotationOverride]
		h.overrides = h.overrides || by.overrides && why != "" && h.required != nil && h.required.Override == v1alpha1.OverrideAllowed
	}
	if answer == nil {
		h.accepted.Add(1)
	}
	return answer, unexpected(answer)
}

// look reads the request. It returns what is wrong with it.
func (h *history) look(ctx context.Context) error {
	current, err := h.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, h.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if h.stored.ResourceVersion != current.ResourceVersion {
		h.stale = append(h.stale, h.stored)
		h.tell("  stored: %s", short(current.Status.Conditions))
	}
	h.stored = current
	if err := h.lookAtVotes(); err != nil {
		return err
	}
	approved := has(current.Status.Conditions, "Approved")
	if approved && !h.isApproved {
		h.isApproved = true
		h.approved.Add(1)
		if h.left > 0 {
			h.byChance.Add(1)
		}
		if err := h.enoughForOne(); err != nil {
			return fmt.Errorf("approved: %w", err)
		}
	}
	if len(current.Status.Certificate) == 0 {
		return nil
	}
	if !approved || has(current.Status.Conditions, "Denied") {
		return fmt.Errorf("a certificate with the conditions %s", short(current.Status.Conditions))
	}
	if err := h.enoughForOne(); err != nil {
		return fmt.Errorf("a certificate: %w", err)
	}
	return nil
}

// lookAtVotes returns an error unless all votes are of people who have approved
// this request.
func (h *history) lookAtVotes() error {
	records, err := voted(h.stored.Status.Conditions)
	if err != nil {
		return err
	}
	for _, r := range records {
		if h.by[r.User] == nil || r.UID != string(h.stored.UID) {
			return fmt.Errorf("there is a vote of %s for %s, which was never given", r.User, r.UID)
		}
	}
	for _, c := range h.stored.Status.Conditions {
		if quorum.IsVote(string(c.Type)) && !slices.Contains(h.votes, c) {
			h.votes = append(h.votes, c)
		}
	}
	return nil
}

// enoughForOne returns nil if enough people have approved for a requirement that
// may have been in force when the request was approved.
func (h *history) enoughForOne() error {
	err := errors.New("nobody has approved")
	for _, required := range h.inForce {
		if err = h.enough(required); err == nil {
			return nil
		}
		if h.overrides && required.Override == v1alpha1.OverrideAllowed {
			h.overridden.Add(1)
			return nil
		}
	}
	return err
}

// enough returns an error if too few people have approved: each way to give
// people to what is required is tried.
func (h *history) enough(required *v1alpha1.PeopleRequirement) error {
	if required == nil {
		if !h.anybody {
			return errors.New("nobody has approved")
		}
		return nil
	}
	if len(h.by) < int(required.Count) {
		return fmt.Errorf("%d people have approved, and %d must", len(h.by), required.Count)
	}
	var seats []string
	for _, from := range required.From {
		for range from.Count {
			seats = append(seats, from.Groups[0])
		}
	}
	if !seatable(seats, h.by, map[string]bool{}) {
		return fmt.Errorf("nobody has approved for one of %v: %v", seats, h.by)
	}
	return nil
}

// seatable reports whether each seat can have a person of its own, of its group.
func seatable(seats []string, people map[string][]string, seated map[string]bool) bool {
	if len(seats) == 0 {
		return true
	}
	for name, groups := range people {
		if seated[name] || !slices.Contains(groups, seats[0]) {
			continue
		}
		seated[name] = true
		if seatable(seats[1:], people, seated) {
			return true
		}
		delete(seated, name)
	}
	return false
}

// short returns what conditions say in a few words.
func short(conditions []condition) string {
	var texts []string
	for _, c := range conditions {
		text := strings.TrimPrefix(string(c.Type), "certplane.dev/") + "=" + string(c.Status)
		if who, _, ok := strings.Cut(c.Message, " (sealed"); ok {
			text += " " + who
		}
		texts = append(texts, text)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
