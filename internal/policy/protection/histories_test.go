package protection_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/protection"
	"github.com/certplane/certplane/internal/policy/quorum"
)

var histories = flag.Int("histories", 2_500, "how many random histories of policies are tried")

// TestHistories tries random histories of two protected policies, another Allow for
// their signer and an exception: writes by people who count and who do not, of
// forged annotations, changed by other webhooks, deletions and creations under the
// same name, jumps of the clock. No specification ever takes effect that fewer
// different people have written than what was stored demands.
func TestHistories(t *testing.T) {
	const seed = 28
	applied := 0
	for i := range *histories {
		h := &history{random: rand.New(rand.NewPCG(seed, uint64(i))), now: now, stored: map[string]*protection.Object{}, writers: map[intent][]writing{}}
		for range 5 + h.random.IntN(20) {
			if wrong := h.step(); wrong != "" {
				t.Fatalf("history %d: %s\n%s", i, wrong, strings.Join(h.told, "\n"))
			}
		}
		applied += h.applied
	}
	// A test in which nothing ever takes effect would prove nothing.
	if applied*10 < *histories {
		t.Errorf("only %d changes in %d histories took effect", applied, *histories)
	}
}

// form is a specification, and what the test knows of it.
type form struct {
	spec map[string]any
	// allows is what an enforced Allow for the signer allows; empty if it is none.
	allows string
	// off: the policy can be deleted. inForce: the exception is, until its end.
	off     bool
	inForce bool
	people  *v1alpha1.ProtectingPeople
}

var (
	twoOf   = &v1alpha1.ProtectingPeople{Count: 2, From: ca.People.From}
	threeOf = &v1alpha1.ProtectingPeople{Count: 3}
)

// forms are all that is ever written, without the forms in which new objects are
// stored.
func forms(kind protection.Kind) []form {
	if kind == protection.Exceptions {
		return []form{
			{spec: spec("{policies: [p, q], notAfter: '2027-12-01T00:00:00Z'}"), inForce: true},
			{spec: spec("{policies: [p], notAfter: '2027-12-01T00:00:00Z'}"), inForce: true},
			{spec: spec("{policies: [p], notAfter: '2020-11-01T00:00:00Z'}")},
		}
	}
	var all []form
	for _, mode := range []string{"Enforce", "Off"} {
		for _, rule := range []string{"a", "b"} {
			for people, text := range map[*v1alpha1.ProtectingPeople]string{
				nil: "", twoOf: ", protection: {people: {count: 2, from: [{groups: [pki], count: 1}, {groups: [security], count: 1}]}}", threeOf: ", protection: {people: {count: 3}}",
			} {
				f := form{spec: spec(fmt.Sprintf("{effect: Allow, mode: '%s', match: {signers: [a/*]}, rules: [{name: %s, expression: 'true'}]%s}", mode, rule, text)), people: people, off: mode == "Off"}
				if mode == "Enforce" {
					f.allows = rule
				}
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b form) int { return strings.Compare(fmt.Sprint(a.spec), fmt.Sprint(b.spec)) })
	return all
}

var (
	policyForms    = forms(protection.Policies)
	exceptionForms = forms(protection.Exceptions)
)

func formsOf(kind protection.Kind) []form {
	if kind == protection.Exceptions {
		return exceptionForms
	}
	return policyForms
}

// formOf returns what the test knows of a specification.
func formOf(spec map[string]any) form {
	if f, known := known[fmt.Sprint(spec)]; known {
		return f
	}
	return form{spec: spec} // an exception that has ended
}

// known are all forms by the text of their specification.
var known = func() map[string]form {
	all := map[string]form{}
	for _, f := range slices.Concat(policyForms, exceptionForms) {
		all[fmt.Sprint(f.spec)] = f
	}
	return all
}()

// everybody may write; only the first five count, and not for everything.
var everybody = []quorum.Voter{
	someone("alice", "pki"), someone("bob", "security"), someone("carol", "security", "pki"), someone("dave", "pki"), someone("erin"), robot,
	{Person: someone("frank", "security").Person, Impersonator: "root"}, someone("system:node:n", "security"),
}

const able = 5

// history is a server, and what has really happened to it.
type history struct {
	cabinet
	random  *rand.Rand
	now     time.Time
	stored  map[string]*protection.Object
	uids    int
	writers map[intent][]writing
	applied int
	told    []string
}

// intent is a specification for an object as it is stored.
type intent struct {
	uid        string
	generation int64
	spec       string
}

type writing struct {
	who quorum.Voter
	at  time.Time
}

func (h *history) tell(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

// step does something at random, and returns what is wrong.
func (h *history) step() string {
	name := []string{"p", "p", "q", "other", "x"}[h.random.IntN(5)]
	kind := protection.Policies
	if name == "x" {
		kind = protection.Exceptions
	}
	who := everybody[h.random.IntN(len(everybody))]
	switch old := h.stored[name]; {
	case h.random.IntN(12) == 0:
		h.now = h.now.Add(time.Duration(h.random.IntN(100)) * time.Hour)
		h.tell("clock %v", h.now)
		return ""
	case old != nil && h.random.IntN(8) == 0:
		return h.delete(kind, old)
	default:
		return h.write(kind, name, who)
	}
}

func (h *history) delete(kind protection.Kind, old *protection.Object) string {
	w := h.cabinet.write(kind, alice, old, nil)
	w.Now, w.Protected = h.now, h.protected()
	if w.MayDelete() != nil {
		return ""
	}
	h.tell("%s is deleted", old.Name)
	delete(h.stored, old.Name)
	f := formOf(old.Spec)
	switch {
	case kind == protection.Policies && f.people != nil && !f.off:
		return "a protected policy was deleted"
	case f.inForce && len(h.demanded(kind, old.Name, nil, old.Spec)) > 0:
		return "an exception in force was deleted"
	}
	return ""
}

func (h *history) protected() []protection.Policy {
	var all []protection.Policy
	for name, o := range h.stored {
		if f := formOf(o.Spec); name != "x" && f.people != nil {
			all = append(all, protection.Policy{Name: name, People: *f.people, Signers: []string{"a/b"}})
		}
	}
	slices.SortFunc(all, func(a, b protection.Policy) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// write is a write as admission handles it, sometimes with another webhook in
// between.
func (h *history) write(kind protection.Kind, name string, who quorum.Voter) string {
	all := formsOf(kind)
	old := h.stored[name]
	sent := &protection.Object{Name: name, Spec: all[h.random.IntN(len(all))].spec, Proposals: h.forge()}
	if old != nil {
		copied := *old
		copied.Spec, copied.Proposals = sent.Spec, sent.Proposals
		if h.random.IntN(2) == 0 {
			copied.Proposals = old.Proposals
		}
		if last := h.lastWanted(old); last != nil && h.random.IntN(4) > 0 {
			copied.Spec = last
		}
		sent = &copied
	}
	h.tell("%s writes %s: %v %s", who.Username, name, sent.Spec, sent.Proposals)
	w := h.cabinet.write(kind, who, old, sent)
	w.Now, w.Protected = h.now, h.protected()
	m, err := w.Mutate()
	if err != nil || m.Refusal != nil {
		return ""
	}
	wanted := sent.Spec
	result := *sent
	if result.Proposals, result.Agreed = m.Proposals, m.Agreed; m.Restore {
		result.Spec = old.Spec
	}
	if m.Spec != nil {
		result.Spec = m.Spec
	}
	if h.random.IntN(10) == 0 { // another webhook
		result.Spec = all[h.random.IntN(len(all))].spec
	}
	if h.random.IntN(10) == 0 {
		result.Proposals = h.forge()
	}
	if h.random.IntN(10) == 0 {
		result.Agreed = h.forge()
	}
	w.New = &result
	if w.Validate() != nil {
		return ""
	}
	return h.store(kind, who, old, &result, wanted)
}

// store stores an object, and returns what is wrong with that.
func (h *history) store(kind protection.Kind, who quorum.Voter, old, result *protection.Object, wanted map[string]any) string {
	var before map[string]any
	if old == nil {
		h.uids++
		result.UID, result.Generation, result.Created = fmt.Sprint(h.uids), 1, h.now
	} else {
		before = old.Spec
	}
	at := intent{result.UID, result.Generation, fmt.Sprint(wanted)}
	h.writers[at] = append(h.writers[at], writing{who, h.now})
	h.stored[result.Name] = result
	if old != nil && reflect.DeepEqual(before, result.Spec) {
		return ""
	}
	demanded := h.demanded(kind, result.Name, before, result.Spec)
	h.tell("%s is stored: %v", result.Name, result.Spec)
	for _, people := range demanded {
		h.applied++
		counted := h.writers[intent{result.UID, result.Generation, fmt.Sprint(result.Spec)}]
		if wrong := h.tooFew(people, counted); wrong != "" {
			return wrong
		}
	}
	if old != nil {
		result.Generation++
	}
	return ""
}

// demanded returns what the stored policies demand of a change, without the code
// under test.
func (h *history) demanded(kind protection.Kind, name string, before, after map[string]any) []*v1alpha1.ProtectingPeople {
	was, is := formOf(before), formOf(after)
	var demanded []*v1alpha1.ProtectingPeople
	if was.people != nil && before != nil {
		demanded = append(demanded, was.people)
	}
	for other, o := range h.stored {
		people := formOf(o.Spec).people
		switch {
		case other == name || people == nil:
		case kind == protection.Policies && is.allows != "" && is.allows != was.allows,
			kind == protection.Exceptions && (was.inForce || is.inForce) && strings.Contains(fmt.Sprint(before["policies"], after["policies"]), other):
			demanded = append(demanded, people)
		}
	}
	return demanded
}

// tooFew says why too few people have written a specification: each way to give
// people to requirements is tried.
func (h *history) tooFew(people *v1alpha1.ProtectingPeople, counted []writing) string {
	fresh := map[string]quorum.Voter{}
	for _, one := range counted {
		isAble := slices.ContainsFunc(everybody[:able], func(p quorum.Voter) bool { return p.Username == one.who.Username })
		if h.now.Sub(one.at) <= quorum.DefaultValidFor && isAble {
			fresh[one.who.Username] = one.who
		}
	}
	if len(fresh) < int(people.Count) {
		return fmt.Sprintf("%d people have written it, want %d", len(fresh), people.Count)
	}
	var who []quorum.Voter
	for _, one := range fresh {
		who = append(who, one)
	}
	if !seatable(people.From, who) {
		return "nobody has written it for one of the groups"
	}
	return ""
}

// seatable reports whether each requirement can have a person of its own.
func seatable(from []v1alpha1.PeopleFrom, who []quorum.Voter) bool {
	if len(from) == 0 {
		return true
	}
	for i, one := range who {
		if slices.Contains(one.Groups, from[0].Groups[0]) && seatable(from[1:], slices.Delete(slices.Clone(who), i, i+1)) {
			return true
		}
	}
	return false
}

// lastWanted returns the specification of some proposal for an object.
func (h *history) lastWanted(o *protection.Object) map[string]any {
	var last []string
	for at := range h.writers {
		if at.uid == o.UID && at.generation == o.Generation {
			last = append(last, at.spec)
		}
	}
	if len(last) == 0 {
		return nil
	}
	slices.Sort(last)
	return known[last[h.random.IntN(len(last))]].spec
}

// forge returns an annotation that somebody may send.
func (h *history) forge() string {
	var texts []string
	for range h.random.IntN(4) {
		texts = append(texts, fmt.Sprintf("%q", fmt.Sprint(h.random.IntN(len(h.records)+1))))
	}
	if texts == nil {
		return ""
	}
	return "[" + strings.Join(texts, ",") + "]"
}
