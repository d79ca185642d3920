// Package sources finds the signers, issuers and endpoints of the ACME server that issue
// a certificate for a name. It evaluates a request for the name alone with the functions
// that evaluate requests, and lists conditions that depend on the request.
package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/client/cli/whocan"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/holders"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// Report lists the sources of certificates for a name, and their users.
type Report struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Sources issue a certificate for the name, Refusing do not.
	Sources  []Source  `json:"sources"`
	Refusing []Refusal `json:"refusing"`
	// Unread are the objects that the caller may not read; the report does not consider
	// them.
	Unread []string `json:"unread,omitempty"`
	// Notes list other facts that the report does not consider.
	Notes []string `json:"notes,omitempty"`
}

// Source is a way to a certificate for the name.
type Source struct {
	// From is a kind and a name, such as Signer web or Issuer shop/ca.
	From string `json:"from"`
	// Signer is its name in requests and rights.
	Signer string `json:"signer,omitempty"`
	// Requesters are the users who may request, Approvers the users who approve.
	Requesters string `json:"requesters"`
	Approvers  string `json:"approvers"`
	// Open are conditions that depend on the request.
	Open []string `json:"open,omitempty"`
}

// Refusal is a source that issues no certificate for the name.
type Refusal struct {
	From    string `json:"from"`
	Because string `json:"because"`
}

// finder finds sources for a name.
type finder struct {
	Name
	api    explain.Reader
	now    time.Time
	report *Report

	policies   []v1alpha1.CertificatePolicy
	exceptions []v1alpha1.CertificatePolicyException
	signers    []v1alpha1.Signer
	// roles is nil if the caller may not read RBAC.
	roles *holders.Objects
}

// Find returns the report for a name.
func Find(ctx context.Context, api explain.Reader, name Name, now time.Time) (Report, error) {
	report := Report{Name: name.text, Kind: name.kind, Sources: []Source{}, Refusing: []Refusal{}}
	f := &finder{Name: name, api: api, now: now, report: &report}
	var policies v1alpha1.CertificatePolicyList
	var exceptions v1alpha1.CertificatePolicyExceptionList
	var signers v1alpha1.SignerList
	if err := errors.Join(
		f.list(ctx, "certificatepolicies.certplane.dev", &policies), f.list(ctx, "certificatepolicyexceptions.certplane.dev", &exceptions),
		f.list(ctx, "signers.certplane.dev", &signers), f.readRoles(ctx),
	); err != nil {
		return report, err
	}
	f.policies, f.exceptions, f.signers = policies.Items, exceptions.Items, signers.Items
	if len(f.exceptions) > 0 {
		report.Notes = append(report.Notes, "CertificatePolicyExceptions can permit more for single requests.")
	}
	for i := range f.signers {
		if err := f.signer(&f.signers[i]); err != nil {
			return report, err
		}
	}
	if err := f.endpoints(ctx); err != nil {
		return report, err
	}
	err := f.issuers(ctx)
	report.Notes = append(report.Notes, "Built-in signers (kubernetes.io/...), CertificateRequestPolicies, and signers that other programs answer, are not considered.")
	return report, err
}

// list lists objects. It returns none if the kind is not served, or if the caller may not
// list it.
func (f *finder) list(ctx context.Context, resource string, into client.ObjectList) error {
	err := f.api.List(ctx, into)
	switch {
	case err == nil, served.IsMissing(err), apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		f.report.Unread = append(f.report.Unread, resource)
		return nil
	}
	return exit.Advise("listing "+resource, err)
}

func (f *finder) readRoles(ctx context.Context) error {
	roles, forbidden, resource, err := whocan.Read(ctx, f.api, "")
	switch {
	case err != nil:
		return exit.Advise("listing "+resource, err)
	case len(forbidden) > 0:
		f.report.Unread = append(f.report.Unread, "roles and their bindings")
		return nil
	}
	f.roles = &roles
	return nil
}

// add adds a source for each way.
func (f *finder) add(s Source, ways []way) {
	for _, w := range ways {
		one := s
		one.Requesters, one.Approvers = join(s.Requesters, w.requesters), cmp.Or(w.decides, s.Approvers)
		one.Open = slices.Concat(s.Open, w.open)
		f.report.Sources = append(f.report.Sources, one)
	}
}

// join joins two conditions on users.
func join(who, more string) string {
	if more == "" {
		return who
	}
	return who + "; of these " + more
}

func (f *finder) refuse(from, because string) {
	f.report.Refusing = append(f.report.Refusing, Refusal{from, because})
}

// signer checks whether a Signer signs for the name.
func (f *finder) signer(s *v1alpha1.Signer) error {
	from := "Signer " + s.Name
	if slices.Contains(s.Spec.Requests, v1alpha1.PodCertificateRequests) {
		f.pods(s)
	}
	if !slices.Contains(s.Spec.Requests, v1alpha1.CertificateSigningRequests) {
		return nil
	}
	sample, err := f.sample(s.Spec.SignerName, s.Spec.Profile.Usages, s.Spec.Profile.KeyTypes, f.now)
	if err != nil {
		return err
	}
	open, because := f.judge(s, sample)
	if because != "" {
		f.refuse(from, because)
		return nil
	}
	ways, because := f.ways(f.policies, f.exceptions, sample, f.now)
	if len(ways) == 0 {
		f.refuse(from, because)
		return nil
	}
	f.add(Source{
		From: from, Signer: s.Spec.SignerName, Open: open,
		Requesters: f.who(rights.TaskRequest, s.Spec.SignerName, ""), Approvers: f.who(rights.TaskApprove, s.Spec.SignerName, ""),
	}, ways)
	return nil
}

// judge returns the reason why a Signer refuses a sample, or the conditions that depend
// on the request.
func (f *finder) judge(s *v1alpha1.Signer, sample request.Request) (open []string, because string) {
	compiled, errs := profile.Compile(s.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		return nil, "its specification is not valid: " + errs.ToAggregate().Error()
	}
	if because := f.unnamed(s); because != "" {
		return nil, because
	}
	_, err := compiled.Decide(sample)
	var refusal *profile.Refusal
	reads := reads(s, compiled)
	switch {
	case len(reads) > 0:
		return []string{"its rules hold, which read " + strings.Join(reads, " and ")}, ""
	case errors.As(err, &refusal) && len(f.subject.DNSNames) == 0 && refusal.Reason != profile.ReasonNames:
		return []string{"its rules hold, which refuse a request for the name alone: " + refusal.Error()}, ""
	case err != nil:
		return nil, err.Error()
	}
	return nil, ""
}

// unnamed returns the reason why certificates of a Signer contain no names of this kind;
// empty if they can.
func (n Name) unnamed(s *v1alpha1.Signer) string {
	names := s.Spec.Profile.Names
	if fieldOf(n, names.DNSNames, names.IPAddresses, names.URIs, names.EmailAddresses) != "" {
		return ""
	}
	return "its certificates have no " + fieldOf(n, "DNS names", "IP addresses", "URIs", "e-mail addresses")
}

// reads returns the inputs of a Signer's expressions other than the requested
// certificate.
func reads(s *v1alpha1.Signer, compiled *profile.Profile) []string {
	var found []string
	if compiled.NeedsRequester() {
		found = append(found, "the requester")
	}
	if compiled.NeedsOrder() {
		found = append(found, "the order of an ACME client")
	}
	if len(s.Spec.Profile.Annotations) > 0 {
		found = append(found, "annotations of the request")
	}
	return found
}

// pods adds a Signer for requests of pods: the names depend on the pod.
func (f *finder) pods(s *v1alpha1.Signer) {
	if because := f.unnamed(s); because != "" {
		f.refuse("Signer "+s.Name+" (pods)", because)
		return
	}
	f.report.Sources = append(f.report.Sources, Source{
		From: "Signer " + s.Name + " (pods)", Signer: s.Spec.SignerName, Requesters: "pods, by PodCertificateRequests", Approvers: "automatic",
		Open: []string{"its rules yield the name for the pod, and policies permit it"},
	})
}

// who returns the users who may do a task with requests to a signer. The namespace is the
// namespace of requests, for kinds with namespaces.
func (f *finder) who(verb, signerName, kind string) string {
	t, err := target.Parse(verb, signerName, kind, "")
	if err != nil || f.roles == nil {
		return "users with that right"
	}
	return usersText(whocan.Holders(*f.roles, t))
}

// mostUsers is the maximum number of users to name.
const mostUsers = 4

// automatic are certplane's own accounts, which act only by policies, orders of ACME
// clients and the configuration.
var automatic = []string{rights.ApproveByPolicy.Account, rights.ApproveACME.Account, rights.KeepACMECertificate.Account}

func isAutomatic(s holders.Subject) bool {
	own := s.Namespace == rights.ServeNamespace || s.Namespace == rights.ClusterNamespace
	return s.Kind == rbacv1.ServiceAccountKind && own && slices.Contains(automatic, s.Name)
}

// usersText names users. Members of system:masters hold all rights.
func usersText(all []holders.Holder) string {
	var names []string
	for _, h := range all {
		if !h.BuiltIn && !isAutomatic(h.Subject) {
			names = append(names, h.Subject.String())
		}
	}
	if len(names) == 0 {
		return "only administrators (system:masters)"
	}
	if more := len(names) - mostUsers; more > 0 {
		names = append(names[:mostUsers], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// endpoints finds the endpoints of the ACME server at which the name can be ordered.
func (f *finder) endpoints(ctx context.Context) error {
	var endpoints v1alpha1.AcmeEndpointList
	var keys v1alpha1.AcmeExternalKeyList
	if err := errors.Join(f.list(ctx, "acmeendpoints.certplane.dev", &endpoints), f.list(ctx, "acmeexternalkeys.certplane.dev", &keys)); err != nil {
		return err
	}
	for i := range endpoints.Items {
		f.endpoint(&endpoints.Items[i], keys.Items)
	}
	return nil
}

func (f *finder) endpoint(e *v1alpha1.AcmeEndpoint, keys []v1alpha1.AcmeExternalKey) {
	from := "AcmeEndpoint " + e.Name
	if f.acme.Type == "" {
		f.refuse(from, "ACME clients cannot order the "+f.kind)
		return
	}
	var open []string
	plain := e.DeepCopy()
	if len(e.Spec.Identifiers.Rules) > 0 {
		open, plain.Spec.Identifiers.Rules = append(open, "its rules hold, which read the account and the whole order"), nil
	}
	compiled, errs := acmeorder.Compile(plain)
	if len(errs) > 0 {
		f.refuse(from, "its specification is not valid: "+errs.ToAggregate().Error())
		return
	}
	by, because := f.profiles(e)
	if len(by) == 0 {
		f.refuse(from, because)
		return
	}
	open = append(open, "the client proves control of the name ("+strings.Join(e.Spec.Challenges.Types, ", ")+")")
	approvers := "automatic if its ServiceAccount has autoapprove on the endpoint; otherwise people"
	if !acmeorder.NeedsNoPerson(&e.Spec) {
		approvers = "certificate policies or people, for each request"
	}
	source := Source{From: from + ", by " + strings.Join(by, ", "), Approvers: approvers, Open: open}
	accounts := f.accounts(compiled, keys)
	for _, account := range accounts.may {
		one := source
		one.Requesters = account
		f.report.Sources = append(f.report.Sources, one)
	}
	if len(accounts.may) == 0 {
		f.refuse(from, cmp.Or(accounts.because, "no account can be created there: it has no external key"))
	}
}

// accounts describes the accounts that may order a name at an endpoint.
type accounts struct {
	may     []string
	because string
}

func (f *finder) accounts(e *acmeorder.Endpoint, keys []v1alpha1.AcmeExternalKey) accounts {
	var found accounts
	ask := func(facts acmeorder.AccountFacts, who string) {
		p := e.CheckIdentifiers([]rfc8555.Identifier{f.acme}, facts, e.Spec().Profiles[0].Name, f.now)
		if p != nil {
			found.because = p.Detail
			return
		}
		found.may = append(found.may, who)
	}
	if admission := e.Spec().Accounts.Admission; admission == v1alpha1.AcmeAdmissionOpen || admission == v1alpha1.AcmeAdmissionApproval {
		who := "anyone who reaches the server (Open)"
		if admission == v1alpha1.AcmeAdmissionApproval {
			who = "accounts that " + f.whoApprovesAccounts(e.Name()) + " approves"
		}
		ask(acmeorder.AccountFacts{Account: &v1alpha1.AcmeAccount{}}, who)
	}
	for i := range keys {
		k := &keys[i]
		if k.Spec.Endpoint != e.Name() || k.Spec.Revoked || k.Spec.Expires != nil && k.Spec.Expires.Time.Before(f.now) {
			continue
		}
		compiled, errs := acmeorder.CompileKey(k)
		if len(errs) > 0 {
			continue
		}
		account := &v1alpha1.AcmeAccount{}
		account.Spec.ExternalKey = &v1alpha1.AcmeExternalKeyReference{Namespace: k.Namespace, Name: k.Name, UID: k.UID}
		who := fmt.Sprintf("clients with the external key %s/%s", k.Namespace, k.Name)
		if k.Spec.Preauthorized != nil {
			who += " (some names without proof)"
		}
		ask(acmeorder.AccountFacts{Account: account, ExternalKey: compiled}, who)
	}
	return found
}

func (f *finder) whoApprovesAccounts(endpoint string) string {
	t, err := target.Endpoint(rights.TaskApprove, endpoint)
	if err != nil || f.roles == nil {
		return "users with that right"
	}
	return usersText(whocan.Holders(*f.roles, t))
}

// profiles returns the signers and issuers of an endpoint that sign for the name, and the
// reasons of the others.
func (f *finder) profiles(e *v1alpha1.AcmeEndpoint) (by []string, because string) {
	for _, p := range e.Spec.Profiles {
		switch {
		case p.Issuer != nil:
			by = append(by, p.Issuer.Kind+" "+p.Issuer.Name)
		case p.Signer != nil:
			if why := f.refusedBy(p.Signer.Name, p.Usages); why != "" {
				because = fmt.Sprintf("profile %s: %s refuses: %s", p.Name, p.Signer.Name, why)
				continue
			}
			by = append(by, "signer "+p.Signer.Name)
		}
	}
	slices.Sort(by)
	return slices.Compact(by), because
}

// refusedBy returns the reason why a signer refuses the name in any request; empty if it
// does not, or if the signer is unknown.
func (f *finder) refusedBy(signerName string, usages []string) string {
	i := slices.IndexFunc(f.signers, func(s v1alpha1.Signer) bool { return s.Spec.SignerName == signerName })
	if i < 0 {
		return ""
	}
	sample, err := f.sample(signerName, usages, f.signers[i].Spec.Profile.KeyTypes, f.now)
	if err != nil {
		return err.Error()
	}
	if _, because := f.judge(&f.signers[i], sample); because != "" {
		return because
	}
	if ways, because := f.ways(f.policies, f.exceptions, sample, f.now); len(ways) == 0 {
		return because
	}
	return ""
}

// issuers finds the issuers of cert-manager.io.
func (f *finder) issuers(ctx context.Context) error {
	var issuers cmv1.IssuerList
	var clusterIssuers cmv1.ClusterIssuerList
	if err := errors.Join(f.list(ctx, "issuers.cert-manager.io", &issuers), f.list(ctx, "clusterissuers.cert-manager.io", &clusterIssuers)); err != nil {
		return err
	}
	for _, i := range issuers.Items {
		if err := f.issuer(certmanager.Signer{Kind: cmv1.IssuerKind, Namespace: i.Namespace, Name: i.Name}, i.Spec.IssuerConfig); err != nil {
			return err
		}
	}
	for _, i := range clusterIssuers.Items {
		if err := f.issuer(certmanager.Signer{Kind: cmv1.ClusterIssuerKind, Name: i.Name}, i.Spec.IssuerConfig); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) issuer(i certmanager.Signer, config cmv1.IssuerConfig) error {
	from := i.Kind + " " + request.FullName(i.Namespace, i.Name)
	sample, err := f.sample(i.String(), []string{"digital signature", "server auth"}, nil, f.now)
	if err != nil {
		return err
	}
	sample.Kind, sample.Namespace = v1alpha1.CertificateRequests, i.Namespace
	ways, because := f.ways(f.policies, f.exceptions, sample, f.now)
	if len(ways) == 0 {
		f.refuse(from, because)
		return nil
	}
	source := Source{From: from, Signer: i.String(), Requesters: "users who may create Certificates: " + f.creators(i.Namespace), Approvers: f.who(rights.TaskApprove, i.String(), "")}
	switch {
	case config.ACME != nil && f.acme.Type == "":
		f.refuse(from, "ACME servers do not issue the "+f.kind)
		return nil
	case config.ACME != nil:
		source.Open = []string{"one of its solvers matches the name and proves control of it to " + config.ACME.Server}
	case config.Vault != nil:
		source.Open = []string{"the role of Vault permits the name"}
	case config.Venafi != nil:
		source.Open = []string{"the zone of Venafi permits the name"}
	}
	f.add(source, ways)
	return nil
}

// creators returns the users who may create Certificates in a namespace, or in any
// namespace if it is empty.
func (f *finder) creators(namespace string) string {
	if f.roles == nil {
		return "users with that right in " + cmp.Or(namespace, "any namespace")
	}
	create := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{certmanager.Group}, Resources: []string{"certificates"}}
	return usersText(holders.Find(*f.roles, holders.Question{Namespace: namespace, Rights: []holders.Right{{AnyOf: []rbacv1.PolicyRule{create}, Namespaced: true}}}).Holders)
}
