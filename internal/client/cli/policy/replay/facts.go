package replay

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/decisionlog"
	"github.com/certplane/certplane/internal/policy/request"
)

// complete returns the input of a decision, with recorded facts where they exist and
// today's facts otherwise. today reports whether it used any of today's facts.
func complete(ctx context.Context, recorded *decisionlog.Recorded, needs certpolicy.Needs, source facts.Source) (in certpolicy.Input, today bool) {
	in, missing := recorded.Needed(needs)
	if missing.Services && in.Request.Pod != nil {
		in.Request.Pod = nil // as long as its Services are not known
	}
	if source == nil {
		return in, false
	}
	pod := recorded.Pod
	if in.Request.Pod != nil {
		pod = nil
	}
	found := source.Of(ctx, &in.Request, pod, missing)
	today = pod != nil && in.Request.Pod != nil
	if missing.Origin || missing.Owner {
		in.Facts.SetOrigin(found)
		today = today || found.Owner.Value != nil || found.Order != nil
	}
	if missing.Namespace {
		in.Facts.Namespace = found.Namespace
		today = today || found.Namespace.Known
	}
	if missing.Node {
		in.Facts.Node = found.Node
		today = today || found.Node.Known
	}
	if missing.Keys {
		in.Facts.Keys = found.Keys
		today = today || found.Keys.Known
	}
	if missing.Earlier {
		in.Facts.Earlier = found.Earlier
		today = today || found.Earlier.Known
	}
	if missing.BuiltIn {
		in.Facts.BuiltIn = found.BuiltIn
		today = today || found.BuiltIn.Known
	}
	for what, allowed := range found.Access {
		in.Facts.Access[what] = allowed
		today = true
	}
	return in, today
}

// quotas adds today's usage of quotas that were not recorded. It reports whether there
// were any.
func (cfg *Config) quotas(ctx context.Context, in *certpolicy.Input) (today bool) {
	var missing []certpolicy.Quota
	for _, set := range []*certpolicy.Set{cfg.Old, cfg.New} {
		if set == nil {
			continue
		}
		for _, q := range set.Quotas(&in.Request) {
			if _, known := in.Facts.Quotas[q]; !known && !slices.Contains(missing, q) {
				missing = append(missing, q)
			}
		}
	}
	if cfg.Today == nil || len(missing) == 0 {
		return false
	}
	uses := cfg.Today.Quotas(ctx, missing, in.Request.UID, cfg.Now())
	if len(uses) > 0 && in.Facts.Quotas == nil {
		in.Facts.Quotas = map[certpolicy.Quota]certpolicy.QuotaUse{}
	}
	maps.Copy(in.Facts.Quotas, uses)
	return len(uses) > 0
}

// count adds the approvals of people on a stored request. The time of the past decision
// is the time of the last approval.
func (p *past) count(ctx context.Context, in *certpolicy.Input, needs certpolicy.Needs, source facts.Source) {
	if source == nil || p.votesLogged {
		return
	}
	votes, known := source.Votes(ctx, &in.Request, p.conditions, needs)
	in.Votes, in.SealsUnknown = votes, !known
	for _, v := range votes {
		if v.Time.After(in.Time) {
			in.Time = v.Time
		}
	}
}

// needsOf caches the facts that requests need by kind and signer: they depend on nothing
// else.
type needsOf struct {
	old, new *certpolicy.Set

	mu    sync.Mutex // guards known
	known map[requestType]certpolicy.Needs
}

type requestType struct {
	kind   v1alpha1.RequestKind
	signer string
}

// of returns the facts that a decision on a request needs.
func (n *needsOf) of(r *request.Request) certpolicy.Needs {
	what := requestType{r.Kind, certpolicy.SignerName(*r)}
	n.mu.Lock()
	needs, found := n.known[what]
	n.mu.Unlock()
	if !found {
		needs = n.new.Needs(r)
		if n.old != nil {
			needs = n.old.Needs(r).And(needs)
		}
		n.mu.Lock()
		if len(n.known) >= maxRemembered || n.known == nil {
			n.known = map[requestType]certpolicy.Needs{}
		}
		n.known[what] = needs
		n.mu.Unlock()
	}
	needs.Access = slices.Clone(needs.Access)
	for i := range needs.Access {
		needs.Access[i].Namespace = r.Namespace
	}
	return needs
}

// Remembered reads each object once. It is safe for concurrent use.
type Remembered struct {
	client.Reader

	mu      sync.Mutex // guards objects
	objects map[question]result
}

type question struct {
	kind reflect.Type
	of   string
	key  client.ObjectKey
}

type result struct {
	object client.Object
	err    error
}

// maxRemembered limits the number of objects in memory.
const maxRemembered = 10_000

// Get implements client.Reader. Objects must not be modified.
func (r *Remembered) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	q := question{reflect.TypeOf(into), into.GetObjectKind().GroupVersionKind().Kind, key}
	r.mu.Lock()
	known, found := r.objects[q]
	r.mu.Unlock()
	if !found {
		known.err = r.Reader.Get(ctx, key, into, options...)
		known.object = into
		r.mu.Lock()
		if len(r.objects) >= maxRemembered || r.objects == nil {
			r.objects = map[question]result{}
		}
		r.objects[q] = known
		r.mu.Unlock()
		return known.err
	}
	if known.err == nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(known.object).Elem())
	}
	return known.err
}

// RememberAccess returns an AccessFunc that asks each question once.
func RememberAccess(ask policies.AccessFunc) policies.AccessFunc {
	type question struct {
		username, uid string
		what          certpolicy.Access
	}
	type answer struct {
		allowed bool
		err     error
	}
	var mu sync.Mutex
	answers := map[question]answer{}
	return func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
		q := question{who.Username, who.UID, what}
		mu.Lock()
		known, found := answers[q]
		mu.Unlock()
		if found {
			return known.allowed, known.err
		}
		known.allowed, known.err = ask(ctx, who, what)
		mu.Lock()
		defer mu.Unlock()
		if len(answers) >= maxRemembered {
			answers = map[question]answer{}
		}
		answers[q] = known
		return known.allowed, known.err
	}
}
