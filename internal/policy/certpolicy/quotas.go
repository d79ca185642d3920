package certpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/duration"
)

// Quota is a quota of a policy for the requester, namespace or other that a
// request counts for.
type Quota struct {
	// Policy is the policy that counts. A policy in the mode Shadow or Warn is
	// evaluated with the counts of the policy that it replaces.
	Policy, Name string
	By           v1alpha1.QuotaBy
	// Key is the requester, namespace or other that the quota counts for. It is empty
	// with QuotaByPolicy.
	Key          string
	Certificates int32
	Per          time.Duration
}

// QuotaUse is how much of a quota is used when a request is decided.
type QuotaUse struct {
	// Used is the number of requests that count.
	Used int32
	// Counted: the request is one of them, or has been.
	Counted bool
	// Again is when one more fits; zero if one does now.
	Again time.Time
}

func (q Quota) at() string { return "quotas[" + q.Name + "]" }

// QuotaAt returns the name of the quota with an address.
func QuotaAt(address string) (name string, is bool) {
	if name, is = strings.CutPrefix(address, "quotas["); is {
		name, is = strings.CutSuffix(name, "]")
	}
	return name, is
}

// text describes the quota.
func (q Quota) text() string {
	text := fmt.Sprintf("the quota %s of %d %s in %s", q.Name, q.Certificates, plural("certificate", q.Certificates), duration.Format(q.Per))
	if q.By == v1alpha1.QuotaByPolicy {
		return text
	}
	return text + " for each " + string(q.By)
}

func plural(noun string, n int32) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// usedUp returns the message that a request does not fit.
func (q Quota) usedUp(use QuotaUse) string {
	return fmt.Sprintf("%s is used up; a request fits again at %s", q.text(), again(use))
}

func again(use QuotaUse) string { return use.Again.UTC().Format(time.RFC3339) }

// exceeded reports whether one request more would be too many.
func (q Quota) exceeded(use QuotaUse) bool { return !use.Counted && use.Used >= q.Certificates }

// quotaOf returns the quota for a request.
func (p *Policy) quotaOf(q *v1alpha1.PolicyQuota, r *request.Request) Quota {
	return Quota{
		Policy: cmp.Or(p.spec.Replaces, p.name), Name: q.Name, By: q.By, Key: quotaKey(q.By, r), Certificates: q.Certificates, Per: q.Per.Duration,
	}
}

// quotaKey returns the key that a request counts for; its requester if it lacks the
// property that the quota counts by.
func quotaKey(by v1alpha1.QuotaBy, r *request.Request) string {
	requester := r.Who().Username
	var key string
	switch by {
	case v1alpha1.QuotaByPolicy:
		return ""
	case v1alpha1.QuotaByRequester:
		return requester
	case v1alpha1.QuotaBySigner:
		return SignerName(*r)
	case v1alpha1.QuotaByNamespace:
		key = NamespaceOf(r)
	case v1alpha1.QuotaByServiceAccount:
		if namespace, name, err := serviceaccount.SplitUsername(requester); err == nil {
			key = namespace + "/" + name
		}
	case v1alpha1.QuotaByNode:
		key = NodeOf(r)
		if pod := podSpec(r); key == "" && pod != nil {
			key = string(pod.NodeName)
		}
	case v1alpha1.QuotaByPod:
		if pod := podSpec(r); pod != nil {
			key = r.Namespace + "/" + pod.PodName + "/" + string(pod.PodUID)
		}
	}
	if key != "" {
		return key
	}
	return "requester " + requester
}

// podSpec returns the spec of a pod's request; nil for other requests.
func podSpec(r *request.Request) *certificatesv1beta1.PodCertificateRequestSpec {
	if pcr, ok := r.Object.(*certificatesv1beta1.PodCertificateRequest); ok {
		return &pcr.Spec
	}
	return nil
}

// Quotas returns the quotas that a decision about a request can read.
func (s *Set) Quotas(r *request.Request) []Quota {
	if !s.limited {
		return nil
	}
	var all []Quota
	for _, p := range s.candidates(r.Kind, SignerName(*r)) {
		for i := range p.spec.Quotas {
			if q := p.quotaOf(&p.spec.Quotas[i], r); !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	return all
}

// CountedQuota is a quota in which the approval of a request counts.
type CountedQuota struct {
	Quota
	// Over: it counts although it does not fit, because of an exception.
	Over bool
	// Payer is the tenant whose share of the ledger the approval takes.
	Payer string
}

// payerOf returns the tenant that pays for the count of an approval: the policy, if the
// quota counts for all requests.
func payerOf(q Quota, r *request.Request) string {
	if q.By == v1alpha1.QuotaByPolicy || q.By == v1alpha1.QuotaBySigner {
		return "policy " + q.Policy
	}
	if namespace := NamespaceOf(r); namespace != "" {
		return "namespace " + namespace
	}
	return "user " + r.Who().Username
}

// Counts returns the quotas in which a request counts if it is approved by d: the
// quotas of the Limits that apply, and of the Allow policy that permits it.
func (s *Set) Counts(d *v1alpha1.PolicyDecision, r *request.Request) []CountedQuota {
	if !s.limited || d.Outcome != v1alpha1.OutcomeApprove && d.Outcome != v1alpha1.OutcomeLeave {
		return nil
	}
	var all []CountedQuota
	for _, p := range s.applied(d) {
		for i := range p.spec.Quotas {
			q := p.quotaOf(&p.spec.Quotas[i], r)
			over := slices.ContainsFunc(d.Violations, func(v v1alpha1.PolicyViolation) bool { return v.Policy == p.name && v.At == q.at() })
			all = append(all, CountedQuota{q, over, payerOf(q, r)})
		}
	}
	return all
}

// applied returns the Limits that applied to a request, and the Allow policy that
// permitted it.
func (s *Set) applied(d *v1alpha1.PolicyDecision) []*Policy {
	var all []*Policy
	for _, c := range d.Considered {
		lets := d.Policy != nil && d.Policy.Name == c.Policy
		if p := s.Policy(c.Policy); p != nil && c.Applies && (c.Effect == v1alpha1.PolicyLimit || c.Effect == v1alpha1.PolicyAllow && lets) {
			all = append(all, p)
		}
	}
	return all
}

// UsedUp returns a warning for each used-up quota of the policies that apply to a new
// request.
func (s *Set) UsedUp(d *v1alpha1.PolicyDecision, in *Input) []string {
	var texts []string
	for q, use := range in.Facts.Quotas {
		applies := slices.ContainsFunc(d.Considered, func(c v1alpha1.ConsideredPolicy) bool { return c.Policy == q.Policy && c.Applies })
		if !applies || !q.exceeded(use) {
			continue
		}
		text := "certificate policy " + q.Policy + ": " + q.usedUp(use)
		if p := s.Policy(q.Policy); p != nil && p.spec.Disclosure == v1alpha1.DiscloseReason {
			text = "certificate policy " + q.Policy + ": the request is not permitted now (" + ReasonQuota + ")"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// checksQuotas reports whether quotas are conditions at a stage. They are not before a
// request is stored, because it may be approved later, or never.
func checksQuotas(stage v1alpha1.DecisionStage) bool {
	return stage != v1alpha1.StageCreate && stage != v1alpha1.StageOwner
}

// withinQuota returns the condition that a request fits into a quota.
func withinQuota(p *Policy, declared v1alpha1.PolicyQuota) condition {
	return func(e *evaluation) []finding {
		if !checksQuotas(e.in.Stage) {
			return nil
		}
		q := p.quotaOf(&declared, &e.in.Request)
		use, known := e.in.Facts.Quotas[q]
		switch {
		case !known:
			return []finding{{at: q.at(), open: "quotas/" + q.Policy + "/" + q.Name}}
		case q.exceeded(use):
			return []finding{{
				at: q.at(), reason: ReasonQuota, value: q.Key, message: q.usedUp(use), would: []string{"a request from " + again(use) + " on"},
			}}
		}
		return nil
	}
}
