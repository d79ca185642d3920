package policies

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/certpolicy"
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

// QuotasOf returns how much of quotas is used, as the ConfigMaps in a namespace
// say. Nil means that the namespace has none of them.
func QuotasOf(ctx context.Context, api client.Reader, namespace string, quotas []certpolicy.Quota, uid string, now time.Time) (map[certpolicy.Quota]certpolicy.QuotaUse, error) {
	var uses map[certpolicy.Quota]certpolicy.QuotaUse
	for _, q := range quotas {
		key, shard := place(q)
		object := &corev1.ConfigMap{}
		if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ledgerName(shard)}, object); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("reading the ledger of quotas: %w", err)
		}
		counted, err := ledgerOf(object)
		if err != nil {
			return nil, err
		}
		if uses == nil {
			uses = map[certpolicy.Quota]certpolicy.QuotaUse{}
		}
		uses[q] = factOf(counted.Use(key, limitOf(q), uid, now))
	}
	return uses, nil
}
