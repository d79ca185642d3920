package convert

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/pages"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/request"
)

// both decide about the same requests.
type both struct {
	*Config
	old []*crp.Policy
	new *certpolicy.Set
}

// tally counts requests.
type tally struct{ requests, differ, unknown int }

// verify decides requests by the original and the converted policies, and reports the
// differences.
func (cfg *Config) verify(ctx context.Context, declared []*approverpolicy.CertificateRequestPolicy, converted []*v1alpha1.CertificatePolicy) error {
	b := both{Config: cfg, new: certpolicy.NewSet(converted, nil)}
	for _, p := range declared {
		compiled, _ := crp.Compile(p)
		// The comparison does not depend on whether a server evaluates the policies now.
		b.old = append(b.old, compiled.WithStatus(&approverpolicy.Status{Conditions: []metav1.Condition{{Type: approverpolicy.ConditionReady, Status: metav1.ConditionTrue}}}))
	}
	var t tally
	page := &print.Page{}
	if err := cfg.eachRequest(ctx, func(cr *cmv1.CertificateRequest) {
		if text := b.compare(ctx, cr, &t); text != "" {
			page.Line(text)
		}
	}); err != nil {
		return err
	}
	page.Line(fmt.Sprintf("%d requests: %d decided differently, %d unknown", t.requests, t.differ, t.unknown))
	if _, err := fmt.Fprint(cfg.Stderr, page.String()); err != nil {
		return err
	}
	switch {
	case t.requests == 0:
		return errors.New("found no CertificateRequests to verify the policies with: name files with --requests")
	case t.differ > 0:
		return answer.No("%d of %d requests are decided differently", t.differ, t.requests)
	case t.unknown > 0:
		return exit.WithNext(fmt.Errorf("the decisions on %d of %d requests are unknown", t.unknown, t.requests),
			"To supply missing facts, give objects with --facts FILE, and the rights of the requester as SubjectAccessReviews with their status.")
	}
	return nil
}

// compare returns the difference between the two decisions on a request, or empty if they
// agree.
func (b *both) compare(ctx context.Context, cr *cmv1.CertificateRequest, t *tally) string {
	t.requests++
	r := request.FromCertificateRequest(cr)
	was, why, err := b.decideOld(ctx, cr, &r)
	in := certpolicy.Input{Stage: v1alpha1.StageReplay, Request: r, Time: b.Now}
	in.Facts = b.Facts.Of(ctx, &in.Request, nil, b.new.Needs(&in.Request))
	in.Facts.Signer = certpolicy.OwnSigner(false)
	would := b.new.Decide(in)
	where := cr.Namespace + "/" + cr.Name
	switch {
	case err != nil:
		t.unknown++
		return fmt.Sprintf("?  %s  %v", where, err)
	case would.Outcome == v1alpha1.OutcomeWait:
		t.unknown++
		return fmt.Sprintf("?  %s  %s", where, would.Message)
	case would.Outcome != was:
		t.differ++
		return fmt.Sprintf("%s→%s  %s  %s / %s", was, would.Outcome, where, why, would.Message)
	}
	return ""
}

func (b *both) decideOld(ctx context.Context, cr *cmv1.CertificateRequest, r *request.Request) (v1alpha1.DecisionOutcome, string, error) {
	d, err := crp.Decide(b.old, cr, crp.Facts{
		NamespaceLabels: func() (map[string]string, error) {
			found := b.Facts.Of(ctx, r, nil, certpolicy.Needs{Namespace: true}).Namespace
			if !found.Known || found.Value == nil {
				return nil, fmt.Errorf("the Namespace %s is unknown", cr.Namespace)
			}
			return found.Value.Labels, nil
		},
		MayUse: func(name string) (bool, error) {
			return b.Facts.Access(ctx, r.Who(), policies.UseOf(cr, name))
		},
	})
	d.Err = err
	return policies.RequestPoliciesFact(&d).Outcome, d.Message, err
}

// eachRequest calls take for each CertificateRequest of the files, or of the API.
func (cfg *Config) eachRequest(ctx context.Context, take func(*cmv1.CertificateRequest)) error {
	if len(cfg.Requests) > 0 {
		return eachDocument(cfg.Requests, certmanager.Group, cmv1.CertificateRequestKind, func(d *manifest.Document) error {
			cr := &cmv1.CertificateRequest{}
			if err := d.Decode(cr); err != nil {
				return err
			}
			take(cr)
			return nil
		})
	}
	err := pages.Each(ctx, cfg.API, &cmv1.CertificateRequestList{}, func(list *cmv1.CertificateRequestList) error {
		for i := range list.Items {
			take(&list.Items[i])
		}
		return nil
	})
	if err != nil {
		return exit.Advise("reading the CertificateRequests", err)
	}
	return nil
}
