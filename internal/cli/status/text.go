package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/cli/inspect"
	"github.com/certplane/certplane/internal/cli/page"
	"github.com/certplane/certplane/internal/cli/shell"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// text is all of it for people: the verdict first.
func (f *facts) text() string {
	p := &page.Page{}
	p.Line(f.verdict())
	p.Section("Certificate", f.certificateRows())
	p.Section("Conditions", f.conditionRows(f.conditions()))
	f.writeEvents(p, "Events", f.events)
	f.writeIssuer(p)
	f.writeSecret(p)
	f.writeRequest(p)
	f.writeNext(p)
	return p.String()
}

func (f *facts) verdict() string {
	name := fmt.Sprintf("Certificate %s/%s", f.Namespace, f.Name)
	ready := certmanager.CertificateCondition(f.certificate, cmv1.CertificateConditionReady)
	switch {
	case ready == nil:
		return name + " was not looked at yet"
	case ready.Status == cmmeta.ConditionTrue:
		if why := inspect.Outdated(f.certificate, f.secretProblem == absent, f.now); why != "" {
			return name + " " + why
		}
		return name + " is ready"
	}
	return fmt.Sprintf("%s is not ready: %s", name, ready.Message)
}

func (f *facts) certificateRows() [][]string {
	spec, status := &f.certificate.Spec, &f.certificate.Status
	names := slices.Concat(spec.DNSNames, spec.IPAddresses, spec.URIs, spec.EmailAddresses)
	rows := [][]string{
		{"created", f.ago(f.certificate.CreationTimestamp.Time)},
		{"secret", spec.SecretName},
		{"issuer", issuerName(spec.IssuerRef)},
		{"common name", page.OrNone(cmp.Or(spec.CommonName, spec.LiteralSubject))},
		{"names", page.OrNone(strings.Join(names, ", "))},
		{"revision", revision(status.Revision)},
		{"not before", f.at(status.NotBefore)},
		{"not after", f.at(status.NotAfter)},
		{"renewal", f.at(status.RenewalTime)},
	}
	if attempts := ptr.Deref(status.FailedIssuanceAttempts, 0); attempts > 0 {
		rows = append(rows, []string{"failed", fmt.Sprintf("%d in a row, last %s", attempts, f.at(status.LastFailureTime))})
	}
	return rows
}

func issuerName(ref cmmeta.IssuerReference) string {
	name := cmp.Or(ref.Kind, cmv1.IssuerKind) + " " + ref.Name
	if ref.Group != "" && ref.Group != certmanager.Group {
		name += " of " + ref.Group
	}
	return name
}

func revision(n *int) string {
	if n == nil {
		return "none"
	}
	return strconv.Itoa(*n)
}

func (f *facts) ago(t time.Time) string { return page.Ago(f.now, t) }

// at shows a time that can be in the future.
func (f *facts) at(t *metav1.Time) string {
	if t == nil {
		return "none"
	}
	return inspect.When(t.Time, f.now)
}

func (f *facts) writeEvents(p *page.Page, title string, e events) {
	if e.problem != "" {
		p.Section(title, [][]string{{e.problem}})
		return
	}
	var rows [][]string
	for _, event := range e.list {
		rows = append(rows, []string{f.ago(apievents.LastSeen(event)), event.Type, event.Reason, event.Note})
	}
	p.Section(title, rows)
}

func (f *facts) writeIssuer(p *page.Page) {
	title := issuerName(f.certificate.Spec.IssuerRef)
	if f.issuer == nil {
		p.Section(title, [][]string{{f.issuerProblem}})
		return
	}
	rows := f.conditionRows(f.issuerConditions())
	if len(rows) == 0 {
		rows = [][]string{{"nobody has looked at it yet"}}
	}
	p.Section(title, rows)
	f.writeEvents(p, "Events of "+title, f.issuerEvents)
}

// writeSecret shows what anybody may know of the Secret: not its key.
func (f *facts) writeSecret(p *page.Page) {
	title := "Secret " + f.certificate.Spec.SecretName
	if f.secret == nil {
		p.Section(title, [][]string{{f.secretProblem}})
		return
	}
	rows := [][]string{
		{"type", string(f.secret.Type)},
		{"created", f.ago(f.secret.CreationTimestamp.Time)},
		{"labels", pairs(f.secret.Labels)},
		{"annotations", pairs(f.secret.Annotations)},
	}
	chain, err := pki.ParseBundle(f.secret.Data[corev1.TLSCertKey])
	if err != nil {
		p.Section(title, append(rows, []string{"certificate", "cannot be read from tls.crt: " + err.Error()}))
		return
	}
	p.Section(title, append(rows, inspect.Describe(chain[0]).Rows(f.now)...))
}

// pairs lists labels or annotations. What kubectl keeps for itself repeats the
// whole object.
func pairs(all map[string]string) string {
	var list []string
	for key, value := range all {
		if key != corev1.LastAppliedConfigAnnotation {
			list = append(list, key+"="+value)
		}
	}
	slices.Sort(list)
	return page.OrNone(strings.Join(list, ", "))
}

func (f *facts) writeRequest(p *page.Page) {
	if f.request == nil {
		title, why := fmt.Sprintf("CertificateRequest for revision %d", issuance.NextRevision(f.certificate)), "none: nothing is being issued"
		if f.isIssuing() {
			why = "not made yet"
		}
		p.Section(title, [][]string{{cmp.Or(f.requestProblem, why)}})
		return
	}
	title := "CertificateRequest " + f.request.Name
	rows := f.conditionRows(f.requestConditions())
	if len(rows) == 0 {
		rows = [][]string{{"nobody has approved or denied it yet"}}
	}
	p.Section(title, rows)
	f.writeEvents(p, "Events of "+title, f.requestEvents)
}

func (f *facts) isIssuing() bool {
	return certmanager.CertificateIs(f.certificate, cmv1.CertificateConditionIssuing)
}

// writeNext says what the user can do, if anything.
func (f *facts) writeNext(p *page.Page) {
	if certmanager.CertificateIs(f.certificate, cmv1.CertificateConditionReady) && !f.isIssuing() {
		return
	}
	p.Title("Next")
	if text, command := f.next(); text != "" {
		p.Line("  " + text)
		if len(command) > 0 {
			p.Line("    " + shell.Line(command...))
		}
	}
	p.Line("  To see who decides, what is checked and what more can be done:")
	p.Line("    " + shell.Line(f.command("explain", "certificate", "-n", f.Namespace, f.Name)...))
}

// next looks for what holds up the next certificate, the first cause first.
func (f *facts) next() (text string, command []string) {
	failed := certmanager.CertificateCondition(f.certificate, cmv1.CertificateConditionIssuing)
	issuerReady := f.issuer != nil && certmanager.IssuerIs(f.issuer, cmv1.IssuerConditionReady)
	switch {
	case failed != nil && failed.Status == cmmeta.ConditionFalse:
		return "Mend what the condition Issuing says; then have it tried again at once:", f.command("renew", "-n", f.Namespace, f.Name)
	case !f.isIssuing():
		return "", nil
	case f.near != "":
		return fmt.Sprintf("Create the issuer, or correct spec.issuerRef: there is one of that name of the kind %s.", f.near), nil
	case f.issuerProblem == absent:
		return "Create the issuer, or correct spec.issuerRef.", nil
	case f.issuer != nil && !issuerReady:
		return "Mend the issuer: its condition Ready says how. The certificate comes by itself then.", nil
	case f.request != nil && isUndecided(f.request):
		return "If nobody else approves the request, do it:", f.command("approve", "-n", f.Namespace, f.request.Name)
	}
	return "", nil
}

func isUndecided(cr *cmv1.CertificateRequest) bool {
	return !certmanager.RequestIs(cr, cmv1.CertificateRequestConditionApproved) && !certmanager.RequestIs(cr, cmv1.CertificateRequestConditionDenied)
}
