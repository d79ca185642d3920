package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/pages"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/holders"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

// state holds the objects about policies in an API.
type state struct {
	now time.Time
	// version is the version of the API server.
	version    string
	policies   []*v1alpha1.CertificatePolicy
	exceptions []*v1alpha1.CertificatePolicyException
	signers    []v1alpha1.Signer
	// requestPolicies are the names of CertificateRequestPolicies; served is true if the
	// API serves this kind.
	requestPolicies []string
	served          bool
	// waiting are the requests that wait for people.
	waiting []Waiting
	// approvedByAll are the last requests of each signer that were approved although no
	// policy matches them.
	approvedByAll map[string]Seen
	// webhooks are the names of all webhooks; nil if they are not needed or could not be
	// read.
	webhooks map[string]bool
	// renewals are the certificates that were renewed without people, by policy.
	renewals map[string]Renewing
	// rbac holds the rights to impersonate.
	rbac holders.Objects
	// foreign is the holder of approver-policy's lease.
	foreign string
	// unread lists objects that could not be read.
	unread []string
}

// serve reports whether the API server is "certplane serve".
func (s *state) serve() bool { return strings.HasSuffix(s.version, buildinfo.VersionSuffix) }

func gather(ctx context.Context, cfg Config) (*state, error) {
	s := &state{now: cfg.Now, approvedByAll: map[string]Seen{}}
	var err error
	if s.version, err = cfg.Version(ctx); err != nil {
		return nil, exit.Advise("asking the server for its version", err)
	}
	if s.policies, s.exceptions, err = policyset.List(ctx, cfg.API); err != nil {
		return nil, exit.Advise("reading the policies", err)
	}
	for _, part := range []struct {
		what string
		read func(context.Context, client.Reader) error
	}{
		{"Signers", s.readSigners},
		{"CertificateRequestPolicies", s.readRequestPolicies},
		{"CertificateSigningRequests", s.readSigningRequests},
		{"CertificateRequests", s.readIssuerRequests},
		{"webhook configurations", s.readWebhooks},
		{"Leases", s.readLeases(cfg.Now)},
		{"roles and bindings of RBAC, which show users who could impersonate voters", s.readRBAC},
	} {
		switch err := part.read(ctx, cfg.API); {
		case err == nil || missing(err):
		case apierrors.IsForbidden(err):
			s.unread = append(s.unread, part.what)
		default:
			return nil, exit.Advise("reading "+part.what, err)
		}
	}
	return s, nil
}

// missing reports whether the API does not serve a kind.
func missing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// eachPage is pages.Each for a take that cannot fail.
func eachPage[L client.ObjectList](ctx context.Context, api client.Reader, empty L, take func(L)) error {
	return pages.Each(ctx, api, empty, func(page L) error { take(page); return nil })
}

func (s *state) readSigners(ctx context.Context, api client.Reader) error {
	return eachPage(ctx, api, &v1alpha1.SignerList{}, func(list *v1alpha1.SignerList) { s.signers = append(s.signers, list.Items...) })
}

func (s *state) readRequestPolicies(ctx context.Context, api client.Reader) error {
	err := eachPage(ctx, api, &approverpolicy.CertificateRequestPolicyList{}, func(list *approverpolicy.CertificateRequestPolicyList) {
		for _, p := range list.Items {
			s.requestPolicies = append(s.requestPolicies, p.Name)
		}
	})
	s.served = !missing(err)
	return err
}

func (s *state) readSigningRequests(ctx context.Context, api client.Reader) error {
	return eachPage(ctx, api, &certificatesv1.CertificateSigningRequestList{}, func(list *certificatesv1.CertificateSigningRequestList) {
		for i := range list.Items {
			csr := &list.Items[i]
			conditions := policies.ConditionsOf(csr)
			s.wait(request.FromCSR(csr), csr.CreationTimestamp, conditions)
			s.renewed(conditions, csr.Status.Certificate, s.now)
		}
	})
}

func (s *state) readIssuerRequests(ctx context.Context, api client.Reader) error {
	return eachPage(ctx, api, &cmv1.CertificateRequestList{}, func(list *cmv1.CertificateRequestList) {
		for i := range list.Items {
			cr := &list.Items[i]
			r := request.FromCertificateRequest(cr)
			conditions := policies.ConditionsOf(cr)
			s.wait(r, cr.CreationTimestamp, conditions)
			s.renewed(conditions, cr.Status.Certificate, s.now)
			s.see(r, certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved))
		}
	})
}

// wait records a request that waits for people.
func (s *state) wait(r request.Request, created metav1.Time, conditions []quorum.Condition) {
	message := ""
	for _, c := range conditions {
		switch {
		case c.Type == "Approved" || c.Type == "Denied":
			return
		case c.Type == quorum.AwaitingApproval:
			message = c.Message
		}
	}
	if message != "" {
		s.waiting = append(s.waiting, Waiting{
			Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Signer: certpolicy.SignerName(r), Since: created, Message: message,
		})
	}
}

// see records the last request that was approved because no policy matches it.
func (s *state) see(r request.Request, approved *cmv1.CertificateRequestCondition) {
	if approved == nil || approved.Reason != certmanager.Group || approved.LastTransitionTime == nil {
		return
	}
	signer := certpolicy.SignerName(r)
	if last, found := s.approvedByAll[signer]; !found || last.Time.Before(approved.LastTransitionTime) {
		s.approvedByAll[signer] = Seen{Request: r.Namespace + "/" + r.Name, Time: *approved.LastTransitionTime}
	}
}

// readWebhooks reads the webhooks that other API servers call. "certplane serve"
// evaluates the policies itself.
func (s *state) readWebhooks(ctx context.Context, api client.Reader) error {
	if s.serve() {
		return nil
	}
	validating, mutating := &admissionv1.ValidatingWebhookConfigurationList{}, &admissionv1.MutatingWebhookConfigurationList{}
	for _, list := range []client.ObjectList{validating, mutating} {
		if err := api.List(ctx, list); err != nil {
			return err
		}
	}
	s.webhooks = map[string]bool{}
	for _, configuration := range validating.Items {
		for _, w := range configuration.Webhooks {
			s.webhooks["validating "+w.Name] = true
		}
	}
	for _, configuration := range mutating.Items {
		for _, w := range configuration.Webhooks {
			s.webhooks["mutating "+w.Name] = true
		}
	}
	return nil
}

// readLeases looks for a running approver-policy.
func (s *state) readLeases(now time.Time) func(context.Context, client.Reader) error {
	return func(ctx context.Context, api client.Reader) error {
		return eachPage(ctx, api, &coordinationv1.LeaseList{}, func(list *coordinationv1.LeaseList) {
			for _, lease := range list.Items {
				if lease.Name != approverpolicy.LeaseName {
					continue
				}
				if holder := approverpolicy.LeaseHolder(&lease, now); holder != "" {
					s.foreign = fmt.Sprintf("%s (Lease %s/%s)", holder, lease.Namespace, lease.Name)
				}
			}
		})
	}
}
