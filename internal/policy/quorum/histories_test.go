package quorum_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

var histories = flag.Int("histories", 20_000, "how many random histories of a request are tried")

// TestHistories tries random histories of a request: approvals, denials, writes
// of forged, changed and removed conditions, by clients and by other webhooks,
// stale writes, impersonation, new requests of the same name, changes of the
// policies, jumps of the clock and restarts with another key, and overrides. A
// certificate is never issued unless enough different people have approved this
// very request, or one with the right to it has overridden the policy.
// If they do, it is issued in the end.
func TestHistories(t *testing.T) {
	const seed = 28
	certificates := 0
	overridden.Store(0)
	for i := range *histories {
		h := newHistory(rand.New(rand.NewPCG(seed, uint64(i))))
		for range 1 + h.random.IntN(12) {
			h.step()
			if reason := h.sign(); reason != "" {
				t.Fatalf("history %d: %s:\n%s", i, reason, strings.Join(h.told, "\n"))
			}
		}
		if h.issued {
			certificates++
		}
		h.create()
		for _, n := range h.random.Perm(len(everybody)) {
			h.approve(everybody[n], h.conditions)
		}
		if h.sign(); !h.issued {
			t.Fatalf("history %d: everybody has approved, and there is no certificate: %s\n%s", i, short(h.conditions), strings.Join(h.told, "\n"))
		}
	}
	// A test in which nothing is ever issued would prove nothing.
	if certificates*50 < *histories || overridden.Load()*200 < int64(*histories) {
		t.Errorf("only %d of %d histories had a certificate, %d by an override", certificates, *histories, overridden.Load())
	}
}

// everybody are the people of the histories. The last ones can never help.
var everybody = []quorum.Voter{
	{Person: person("alice/pki,dev")}, {Person: person("bob/pki")}, {Person: person("carol/security")}, {Person: person("dave/security,pki")},
	{Person: person("erin/dev")}, {Person: person("grace")}, {Person: person("requester/pki,security")}, {Person: person("frank/pki,security"), Impersonator: "root"},
	{Person: person("system:serviceaccount:a:b/system:serviceaccounts,pki")}, {Person: person("system:node:n/system:nodes,security")},
	{Person: person("system:anonymous/system:unauthenticated,pki")},
}

// able is how many of everybody can help: the last one only by overriding.
const able = 6

// mayOverride are those who have the right to override the policy: also some who
// can never help.
var mayOverride = []string{"alice", "grace", "requester", "frank", "system:serviceaccount:a:b", "system:node:n"}

// policiesOfHistories are the requirements between which administrators change.
var policiesOfHistories = []v1alpha1.PeopleRequirement{
	requirement(2).People, requirement(3).People,
	requirement(2, "1 of pki", "1 of security").People, requirement(3, "2 of pki").People,
	overridable("", 2, "1 of pki", "1 of security").People, overridable("", 3, "2 of pki").People,
}

// history is a server with one request, and what has really happened to it.
type history struct {
	random     *rand.Rand
	now        time.Time
	req        request.Request
	conditions []quorum.Condition
	// stale are conditions that some client has read, maybe of another request of
	// the name. texts are all sealed records, which anybody may have copied.
	stale  [][]quorum.Condition
	policy quorum.Requirement
	// key is the number of the key that seals, trusted are those that open.
	key     int
	trusted map[int]bool
	sealed  map[string]quorum.Record
	texts   []string
	// approvals are the last approvals of the request by people who may.
	approvals map[string]approvalOf
	// overrides are all approvals by people who may override the policy.
	overrides []approvalOf
	issued    bool
	told      []string
}

// overridden counts the certificates by overrides.
var overridden atomic.Int64

type approvalOf struct {
	voter quorum.Voter
	at    time.Time
}

func newHistory(random *rand.Rand) *history {
	h := &history{random: random, now: now, trusted: map[int]bool{0: true}, sealed: map[string]quorum.Record{}}
	h.change()
	h.create()
	return h
}

func (h *history) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

// create creates the request, after deleting the one that is there.
func (h *history) create() {
	h.req = regionalCA
	h.req.UID = fmt.Sprintf("u%d", len(h.told))
	h.conditions, h.approvals, h.overrides, h.issued = nil, map[string]approvalOf{}, nil, false
	h.req.ObjectAnnotations = nil
	h.tell("create %s", h.req.UID)
}

func (h *history) change() {
	h.policy = quorum.Requirement{Policy: "p", Digest: fmt.Sprint(h.random.IntN(9)), People: policiesOfHistories[h.random.IntN(len(policiesOfHistories))]}
	h.tell("policy %+v", h.policy.People)
}

// step does something at random.
func (h *history) step() {
	if h.random.IntN(3) == 0 {
		h.stale = append(h.stale, slices.Clone(h.conditions))
	}
	read := h.conditions
	if len(h.stale) > 0 && h.random.IntN(4) == 0 {
		read = h.stale[h.random.IntN(len(h.stale))]
	}
	voter := everybody[h.random.IntN(len(everybody))]
	if h.random.IntN(8) == 0 {
		h.req.ObjectAnnotations = map[string]string{v1alpha1.AnnotationOverride: []string{"", "an outage", "another outage"}[h.random.IntN(3)]}
		h.tell("%v", h.req.ObjectAnnotations)
	}
	switch h.random.IntN(16) {
	case 0:
		h.create()
	case 1:
		h.change()
	case 2:
		h.now = h.now.Add(time.Duration(h.random.IntN(400)-40) * time.Hour)
		h.tell("clock %v", h.now)
	case 3:
		h.restart()
	case 4:
		if h.random.IntN(4) == 0 {
			h.write(voter, append(slices.Clone(read), condition("Denied")), false)
		}
	case 5, 6, 7:
		h.write(voter, h.forge(read), false)
	case 8:
		h.write(voter, append(slices.Clone(read), condition("Approved")), true)
	default:
		h.approve(voter, read)
	}
}

// restart starts the server with another key, and sometimes without trust in
// the former one.
func (h *history) restart() {
	h.key++
	if h.random.IntN(2) == 0 {
		clear(h.trusted)
	}
	h.trusted[h.key] = true
	h.tell("restart with key %d of %v", h.key, h.trusted)
}

// approve approves as kubectl does, with conditions that were read.
func (h *history) approve(voter quorum.Voter, read []quorum.Condition) {
	h.write(voter, append(slices.Clone(read), condition("Approved")), false)
}

// forge returns conditions as somebody may send them who may write the status.
func (h *history) forge(read []quorum.Condition) []quorum.Condition {
	sent := slices.Clone(read)
	for range 1 + h.random.IntN(2) {
		switch h.random.IntN(5) {
		case 0:
			if len(sent) > 0 {
				i := h.random.IntN(len(sent))
				sent = slices.Delete(sent, i, i+1)
			}
		case 1: // a record, maybe of another request or under another number
			if len(h.texts) > 0 {
				text := h.texts[h.random.IntN(len(h.texts))]
				sent = append(sent, quorum.Condition{
					Type: quorum.VoteType(1 + h.random.IntN(4)), Status: "True", Reason: "Approved", Message: "x approved (sealed " + text + ")",
				})
			}
		case 2:
			sent = append(sent, quorum.Condition{Type: "Approved", Status: []string{"True", "False", "Unknown", ""}[h.random.IntN(4)]})
		case 3:
			sent = append(sent, quorum.Condition{Type: quorum.VoteType(1), Status: "True", Message: "x approved (sealed nonsense)"})
		case 4:
			h.random.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		}
	}
	return sent
}

// write is a write of the request's conditions as admission handles it. With
// tampering, another webhook changes what is to be stored.
func (h *history) write(voter quorum.Voter, sent []quorum.Condition, tampering bool) {
	w := quorum.Write{
		Request: h.req, Old: h.conditions, New: sent, User: voter, Now: h.now, Decide: needing(h.req, h.now, h.policy), All: []quorum.Requirement{h.policy},
		Open: h.open, Seal: h.seal, MayOverride: func(string) (bool, error) { return slices.Contains(mayOverride, voter.Username), nil },
	}
	h.tell("write by %s: %s", voter.Username, short(sent))
	m, err := w.Mutate()
	if err != nil || m.Refusal != nil {
		return
	}
	w.New = m.Conditions
	if tampering {
		w.New = h.forge(w.New)
		h.tell("  tampered: %s", short(w.New))
	}
	approves := w.Approves() || m.Recorded != nil
	if w.Validate() != nil {
		return
	}
	h.conditions = w.New
	if approves && voter.Impersonator == "" && slices.ContainsFunc(everybody[:able], func(p quorum.Voter) bool { return p.Username == voter.Username }) {
		h.approvals[voter.Username] = approvalOf{voter, h.now}
		if h.policy.People.Override == v1alpha1.OverrideAllowed && quorum.Why(h.req.ObjectAnnotations) != "" && slices.Contains(mayOverride, voter.Username) {
			h.overrides = append(h.overrides, h.approvals[voter.Username])
		}
	}
	h.tell("  stored: %s", short(h.conditions))
}

func (h *history) seal(r quorum.Record) (string, error) {
	text := fmt.Sprintf("%d.%d", h.key, len(h.sealed))
	h.sealed[text], h.texts = r, append(h.texts, text)
	return text, nil
}

func (h *history) open(text string) (quorum.Record, error) {
	var key int
	record, ok := h.sealed[text]
	if fmt.Sscanf(text, "%d.", &key); !ok || !h.trusted[key] {
		return quorum.Record{}, fmt.Errorf("%s is sealed by nobody who is trusted", text)
	}
	return record, nil
}

// sign is what a signer does. It returns what is wrong with a certificate.
func (h *history) sign() string {
	has := func(of string) bool {
		return slices.ContainsFunc(h.conditions, func(c quorum.Condition) bool { return c.Type == of && c.Status != "False" })
	}
	if h.issued || !has("Approved") || has("Denied") {
		return ""
	}
	decision, _ := needing(h.req, h.now, h.policy)(quorum.Votes(h.conditions, h.req, h.open))
	if decision.Outcome != v1alpha1.OutcomeApprove {
		return ""
	}
	h.issued = true
	h.tell("a certificate under %+v", h.policy.People)
	return h.tooFew()
}

// tooFew says why too few people have approved, counted without the code under
// test: each way to give people to requirements is tried.
func (h *history) tooFew() string {
	if h.policy.People.Override == v1alpha1.OverrideAllowed && slices.ContainsFunc(h.overrides, func(a approvalOf) bool {
		return h.now.Sub(a.at) <= quorum.DefaultValidFor
	}) {
		overridden.Add(1)
		return ""
	}
	var counted []approvalOf
	for _, a := range h.approvals {
		if h.now.Sub(a.at) <= quorum.DefaultValidFor {
			counted = append(counted, a)
		}
	}
	if want := int(h.policy.People.Count); len(counted) < want {
		return fmt.Sprintf("%d people have approved, want %d", len(counted), want)
	}
	var seats []string
	for _, from := range h.policy.People.From {
		for range from.Count {
			seats = append(seats, from.Groups[0])
		}
	}
	if !seatable(seats, counted) {
		return fmt.Sprintf("nobody has approved for one of %v", seats)
	}
	return ""
}

// seatable reports whether each seat can have a person of its own, of its group.
func seatable(seats []string, people []approvalOf) bool {
	if len(seats) == 0 {
		return true
	}
	for i, a := range people {
		if slices.Contains(a.voter.Groups, seats[0]) && seatable(seats[1:], slices.Delete(slices.Clone(people), i, i+1)) {
			return true
		}
	}
	return false
}
