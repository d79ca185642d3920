package policies

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quota"
)

// countAttempts bounds how often a request is decided again because quotas were
// used up meanwhile.
const countAttempts = 3

// Count counts the approval that follows from d in the quotas of policies. A
// request is counted once, however often that is called. If there is no room any
// more, it returns the decision that is made then. Nothing is counted unless the
// outcome of d is Approve or Leave.
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

// ReadQuotas returns how much of quotas is used, as far as that can be read: the
// controllers count in one of the namespaces.
func ReadQuotas(ctx context.Context, api client.Reader, namespaces []string, quotas []certpolicy.Quota, uid string, now time.Time) map[certpolicy.Quota]certpolicy.QuotaUse {
	uses := map[certpolicy.Quota]certpolicy.QuotaUse{}
	for _, q := range quotas {
		key, shard := place(q)
		counted, err := readShard(ctx, api, namespaces, ledgerName(shard))
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot read how much of a quota is used", "policy", q.Policy, "quota", q.Name, "err", err)
			continue
		}
		uses[q] = factOf(counted.Use(key, limitOf(q), uid, now))
	}
	return uses
}

// readShard reads the ConfigMap that is in one of the namespaces. If it is in
// none, nothing was counted there.
func readShard(ctx context.Context, api client.Reader, namespaces []string, name string) (*quota.Ledger, error) {
	for _, namespace := range namespaces {
		object := &corev1.ConfigMap{}
		err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		switch {
		case err == nil:
			return ledgerOf(object)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return quota.New(), nil
}
