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
	"github.com/certplane/certplane/internal/cli/inspect"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/requests"
)

// text returns the whole status for people: the verdict first.
func (f facts) text() string {
	p := &print.Page{}
	p.Line(f.verdict())
	p.Section("Certificate", f.certificateRows())
	p.Section("Conditions", f.conditionRows(f.Conditions()))
	f.writeEvents(p, "Events", f.Events)
	f.writeIssuer(p)
	f.writeSecret(p)
	f.writeRequest(p)
	f.writeNext(p)
	return p.String()
}

func (f facts) verdict() string {
	name := fmt.Sprintf("Certificate %s/%s", f.Certificate.Namespace, f.Certificate.Name)
	ready := certmanager.CertificateCondition(f.Certificate, cmv1.CertificateConditionReady)
	switch {
	case ready == nil:
		return name + " was not looked at yet"
	case ready.Status == cmmeta.ConditionTrue:
		if why := f.Outdated(); why != "" {
			return name + " " + why
		}
		return name + " is ready"
	}
	return fmt.Sprintf("%s is not ready: %s", name, ready.Message)
}

func (f facts) certificateRows() [][]string {
	spec, status := &f.Certificate.Spec, &f.Certificate.Status
	names := slices.Concat(spec.DNSNames, spec.IPAddresses, spec.URIs, spec.EmailAddresses)
	rows := [][]string{
		{"created", f.ago(f.Certificate.CreationTimestamp.Time)},
		{"secret", spec.SecretName},
		{"issuer", issuerName(spec.IssuerRef)},
		{"common name", print.OrNone(cmp.Or(spec.CommonName, spec.LiteralSubject))},
		{"names", print.OrNone(strings.Join(names, ", "))},
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

func (f facts) ago(t time.Time) string { return print.Ago(f.Now, t) }

// at returns the text of a time that can be in the future.
func (f facts) at(t *metav1.Time) string {
	if t == nil {
		return "none"
	}
	return inspect.When(t.Time, f.Now)
}

// conditionRows returns conditions as rows for people.
func (f facts) conditionRows(conditions []explain.Condition) [][]string {
	var rows [][]string
	for _, c := range conditions {
		age := ""
		if c.LastTransitionTime != nil {
			age = f.ago(*c.LastTransitionTime)
		}
		rows = append(rows, []string{c.Type, c.Status, age, c.Reason, c.Message})
	}
	return rows
}

func (f facts) writeEvents(p *print.Page, title string, events explain.Events) {
	if events.Unknown {
		p.Section(title, [][]string{{noEvents}})
		return
	}
	var rows [][]string
	for _, event := range events.List {
		rows = append(rows, []string{f.ago(event.Time), event.Type, event.Reason, event.Note})
	}
	p.Section(title, rows)
}

func (f facts) writeIssuer(p *print.Page) {
	title := issuerName(f.Certificate.Spec.IssuerRef)
	if f.Issuer.Object == nil {
		p.Section(title, [][]string{{f.issuerProblem()}})
		return
	}
	rows := f.conditionRows(f.Issuer.Conditions())
	if len(rows) == 0 {
		rows = [][]string{{"nobody has looked at it yet"}}
	}
	p.Section(title, rows)
	f.writeEvents(p, "Events of "+title, f.Issuer.Events)
}

// writeSecret writes the public content of the Secret, without its key.
func (f facts) writeSecret(p *print.Page) {
	title := "Secret " + f.Certificate.Spec.SecretName
	if f.Secret == nil {
		p.Section(title, [][]string{{problemOf(f.SecretExists)}})
		return
	}
	rows := [][]string{
		{"type", string(f.Secret.Type)},
		{"created", f.ago(f.Secret.CreationTimestamp.Time)},
		{"labels", pairs(f.Secret.Labels)},
		{"annotations", pairs(f.Secret.Annotations)},
	}
	chain, err := pki.ParseBundle(f.Secret.Data[corev1.TLSCertKey])
	if err != nil {
		p.Section(title, append(rows, []string{"certificate", "cannot be read from tls.crt: " + err.Error()}))
		return
	}
	p.Section(title, append(rows, inspect.Describe(chain[0]).Rows(f.Now)...))
}

// pairs lists labels or annotations. It omits kubectl's own annotation, which
// repeats the whole object.
func pairs(all map[string]string) string {
	var list []string
	for key, value := range all {
		if key != corev1.LastAppliedConfigAnnotation {
			list = append(list, key+"="+value)
		}
	}
	slices.Sort(list)
	return print.OrNone(strings.Join(list, ", "))
}

func (f facts) writeRequest(p *print.Page) {
	if f.Next == nil {
		title, why := fmt.Sprintf("CertificateRequest for revision %d", issuance.NextRevision(f.Certificate)), "none: nothing is being issued"
		switch {
		case f.RequestsUnknown:
			why = noRequests
		case f.IsIssuing():
			why = "not made yet"
		}
		p.Section(title, [][]string{{why}})
		return
	}
	title := "CertificateRequest " + f.Next.Request.Name
	rows := f.conditionRows(f.Next.Conditions())
	if len(rows) == 0 {
		rows = [][]string{{"nobody has approved or denied it yet"}}
	}
	p.Section(title, rows)
	f.writeEvents(p, "Events of "+title, f.Next.Events)
}

// writeNext writes what the user can do, if anything.
func (f facts) writeNext(p *print.Page) {
	if certmanager.CertificateIs(f.Certificate, cmv1.CertificateConditionReady) && !f.IsIssuing() {
		return
	}
	p.Title("Next")
	if text, command := f.next(); text != "" {
		p.Line("  " + text)
		if len(command) > 0 {
			p.Line("    " + print.CommandLine(command...))
		}
	}
	p.Line("  To see who decides, what is checked and what more can be done:")
	p.Line("    " + print.CommandLine(f.Certplane("explain", "certificate", "-n", f.Certificate.Namespace, f.Certificate.Name)...))
}

// next returns what delays the next certificate, the first cause first.
func (f facts) next() (text string, command []string) {
	crt := f.Certificate
	failed := certmanager.CertificateCondition(crt, cmv1.CertificateConditionIssuing)
	if failed != nil && failed.Status == cmmeta.ConditionFalse {
		return "Mend what the condition Issuing says; then have it tried again at once:", f.Certplane("renew", "-n", crt.Namespace, crt.Name)
	}
	if !f.IsIssuing() {
		return "", nil
	}
	switch trouble := f.Issuer.Trouble(); {
	case trouble == explain.NotServed, trouble == explain.Unsupported:
		step := f.IssuerSteps()[0]
		return step.Text, slices.Concat(step.Commands...)
	case trouble == explain.NotThere && f.Issuer.Near != nil:
		return fmt.Sprintf("Create the issuer, or correct spec.issuerRef: there is one of that name of the kind %s.", f.Issuer.Near.Ref.Kind), nil
	case trouble == explain.NotThere:
		return "Create the issuer, or correct spec.issuerRef.", nil
	case trouble == explain.NotReady && f.Issuer.Object != nil:
		return "Mend the issuer: its condition Ready says how. The certificate comes by itself then.", nil
	case f.Next != nil && requests.Undecided(f.Next.Request):
		return "If nobody else approves the request, do it:", f.Certplane("approve", "-n", crt.Namespace, f.Next.Request.Name)
	}
	return "", nil
}
