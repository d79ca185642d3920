package policies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quota"
	"github.com/certplane/certplane/internal/rights"
)

// countAttempts limits how often a request is decided again because a quota was used up
// at the same time.
const countAttempts = 3

// Count counts the approval that follows from d in the quotas of policies. Repeated
// calls count a request once. If a quota is used up, Count decides again and returns
// that decision. Nothing is counted unless the outcome of d is Approve or Leave.
func (p *Policies) Count(ctx context.Context, d *Decision) (*Decision, error) {
	if d == nil {
		return nil, nil
	}
	for range countAttempts {
		counts := d.Set.Counts(d.PolicyDecision, &d.Input.Request)
		if len(counts) == 0 {
			return d, nil
		}
		fits, err := p.quotas.count(ctx, counts, d.Input.Request.UID)
		if err != nil {
			return d, err
		}
		if fits {
			return d, nil
		}
		in := d.Input
		if in.Facts.Quotas, err = p.quotas.look(ctx, d.Set.Quotas(&in.Request), in.Request.UID); err != nil {
			return d, err
		}
		d = d.of(in)
	}
	return d, errContended
}

// LedgerReader reads how much of quotas is used, for programs outside of the server. It
// reads each ConfigMap once. It is safe for concurrent use.
type LedgerReader struct {
	API client.Reader
	// Namespaces returns the namespaces in which the controllers may run. Certain: they
	// run in one of them.
	Namespaces func(context.Context) []string
	Certain    bool

	mu         sync.Mutex // guards all below
	namespaces []string
	shards     map[int]ledgerCopy
}

// ledgerCopy is the content of a ConfigMap, or the error of reading it.
type ledgerCopy struct {
	counted *quota.Ledger
	err     error
}

// Use returns how much of quotas is used, for the request with a UID. Quotas that
// cannot be read are missing, and the error is why.
func (r *LedgerReader) Use(ctx context.Context, quotas []certpolicy.Quota, uid string, now time.Time) (map[certpolicy.Quota]certpolicy.QuotaUse, error) {
	uses := map[certpolicy.Quota]certpolicy.QuotaUse{}
	var failed error
	for _, q := range quotas {
		key, shard := place(q)
		read := r.read(ctx, shard)
		if read.err != nil {
			failed = fmt.Errorf("reading how much of the quotas of certificate policies is used: %w", read.err)
			continue
		}
		uses[q] = factOf(read.counted.Use(key, limitOf(q), uid, now))
	}
	return uses, failed
}

func (r *LedgerReader) read(ctx context.Context, shard int) ledgerCopy {
	r.mu.Lock()
	defer r.mu.Unlock()
	read, known := r.shards[shard]
	if known {
		return read
	}
	if r.shards == nil {
		r.shards, r.namespaces = map[int]ledgerCopy{}, r.Namespaces(ctx)
	}
	read.counted, read.err = r.find(ctx, ledgerName(shard))
	r.shards[shard] = read
	return read
}

// errNoLedger means that the namespace in which approvals are counted is not known.
var errNoLedger = errors.New("it is not known in which namespace the controllers are")

// find reads the ConfigMap that is in one of the namespaces. If the controllers run in
// one of them and the ConfigMap does not exist, nothing was counted.
func (r *LedgerReader) find(ctx context.Context, name string) (*quota.Ledger, error) {
	var errs []error
	home := r.Certain
	for _, namespace := range r.namespaces {
		object := &corev1.ConfigMap{}
		err := r.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		switch {
		case err == nil:
			return ledgerOf(object)
		case !apierrors.IsNotFound(err):
			errs = append(errs, err)
		case !home:
			home = r.API.Get(ctx, client.ObjectKey{Namespace: namespace, Name: rights.ApprovalKeys}, object) == nil
		}
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case !home:
		return nil, errNoLedger
	}
	return quota.New(), nil
}
