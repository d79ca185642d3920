package holders

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// evaluation is the effect of bindings on the rights of a question.
type evaluation struct {
	question Question
	records  map[Subject]*record
}

// record is the effect of bindings on a subject.
type record struct {
	grants []grant
	almost map[int][]string
	// misled is set if a binding was meant to give a right, and does not.
	misled bool
}

// grant is a right that a binding gives, in a namespace or in all of them.
type grant struct {
	right     int // its index in the question
	namespace string
	source    Source
}

func evaluate(o Objects, q Question) *evaluation {
	e := &evaluation{q, map[Subject]*record{{Kind: rbacv1.GroupKind, Name: masters}: {}}}
	for binding := range o.bindings() {
		if q.Namespace == "" || binding.namespace == "" || binding.namespace == q.Namespace {
			e.add(binding)
		}
	}
	return e
}

// add records what a binding gives to its subjects.
func (e *evaluation) add(binding binding) {
	given := record{almost: map[int][]string{}}
	for i, right := range e.question.Rights {
		full, almost, misled := right.judge(binding)
		if full {
			given.grants = append(given.grants, grant{i, binding.namespace, binding.source(right)})
		}
		given.almost[i] = append(given.almost[i], almost...)
		given.misled = given.misled || misled && !right.Optional
	}
	for _, s := range binding.subjects {
		if subject, ok := subjectOf(s, binding.namespace); ok {
			e.record(subject).add(given)
		}
	}
}

func (e *evaluation) record(of Subject) *record {
	if e.records[of] == nil {
		e.records[of] = &record{}
	}
	return e.records[of]
}

func (r *record) add(given record) {
	r.grants = append(r.grants, given.grants...)
	r.misled = r.misled || given.misled
	for right, texts := range given.almost {
		if r.almost == nil {
			r.almost = map[int][]string{}
		}
		r.almost[right] = append(r.almost[right], texts...)
	}
}

func (e *evaluation) subjects() []Subject {
	return slices.SortedFunc(maps.Keys(e.records), compareSubjects)
}

// isRelevant reports whether a subject itself has a part of the needed rights.
func (e *evaluation) isRelevant(subject Subject) bool {
	r := e.records[subject]
	return r.misled || slices.ContainsFunc(r.grants, func(g grant) bool { return !e.question.Rights[g.right].Optional })
}

// grants returns what a subject has itself and as a member of groups.
func (e *evaluation) grants(subject Subject) []grant {
	all := slices.Clone(e.records[subject].grants)
	for _, group := range subject.groups() {
		r := e.records[Subject{Kind: rbacv1.GroupKind, Name: group}]
		if r == nil {
			continue
		}
		for _, g := range r.grants {
			g.source.Group = group
			all = append(all, g)
		}
	}
	return all
}

// judge returns what a subject has and lacks, where it lacks the least.
func (e *evaluation) judge(subject Subject) Holder {
	held := e.grants(subject)
	holder := Holder{Subject: subject, BuiltIn: subject == Subject{Kind: rbacv1.GroupKind, Name: masters}}
	holder.Namespaces = e.scope(held)
	for i, right := range e.question.Rights {
		if holds(held, i, holder.Namespaces...) {
			holder.Has = append(holder.Has, Held{right.String(), right.Optional, sourcesOf(held, i, holder.Namespaces)})
		} else {
			almost := slices.Clone(e.records[subject].almost[i])
			slices.Sort(almost)
			holder.Lacks = append(holder.Lacks, Lack{right.String(), right.Optional, slices.Compact(almost)})
		}
	}
	if holder.BuiltIn {
		holder.Namespaces, holder.Lacks = nil, nil
	}
	return holder
}

// scope returns the namespaces in which the fewest rights are lacking, nil for
// all namespaces. The same rights are lacking in all of them.
func (e *evaluation) scope(held []grant) []string {
	least := e.lacking(held)
	var scope []string
	for _, namespace := range namespacesOf(held) {
		switch lacking := e.lacking(held, namespace); {
		case len(lacking) < len(least):
			least, scope = lacking, []string{namespace}
		case scope != nil && slices.Equal(lacking, least):
			scope = append(scope, namespace)
		}
	}
	return scope
}

func namespacesOf(held []grant) []string {
	var namespaces []string
	for _, g := range held {
		if g.namespace != "" {
			namespaces = append(namespaces, g.namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// lacking returns the required rights that are lacking in a namespace, or in the whole
// cluster if none is given. It ignores optional rights.
func (e *evaluation) lacking(held []grant, namespace ...string) []int {
	var lacking []int
	for i, right := range e.question.Rights {
		if !right.Optional && !holds(held, i, namespace...) {
			lacking = append(lacking, i)
		}
	}
	return lacking
}

// holds reports whether a right is held in each of the namespaces, or in the
// whole cluster if none is given.
func holds(held []grant, right int, namespaces ...string) bool {
	if len(sourcesOf(held, right, nil)) > 0 {
		return true
	}
	for _, namespace := range namespaces {
		if len(sourcesOf(held, right, []string{namespace})) == 0 {
			return false
		}
	}
	return len(namespaces) > 0
}

// sourcesOf returns what gives a right in the whole cluster, or in one of the
// namespaces.
func sourcesOf(held []grant, right int, namespaces []string) []Source {
	var sources []Source
	for _, g := range held {
		if g.right == right && (g.namespace == "" || slices.Contains(namespaces, g.namespace)) {
			sources = append(sources, g.source)
		}
	}
	slices.SortFunc(sources, compareSources)
	return slices.CompactFunc(sources, func(a, b Source) bool { return compareSources(a, b) == 0 })
}
