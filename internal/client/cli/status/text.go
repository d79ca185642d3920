package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/inspect"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// text returns the whole status as text: the verdict first.
func (f facts) text() string {
	p := &print.Page{}
	p.Line(f.explanation.Verdict)
	p.Section("Certificate", f.certificateRows())
	p.Section("Conditions", f.conditionRows(f.Conditions()))
	f.writeEvents(p, "Events", f.Events)
	f.writeIssuer(p)
	f.writeSecret(p)
	f.writeRequest(p)
	p.Section("Checks", verb.CheckRows(f.explanation.Checks))
	verb.WriteSteps(p, f.steps())
	return p.String()
}

func (f facts) certificateRows() [][]string {
	spec, status := &f.Certificate.Spec, &f.Certificate.Status
	names := slices.Concat(spec.DNSNames, spec.IPAddresses, spec.URIs, spec.EmailAddresses)
	rows := [][]string{
		{"created", f.ago(f.Certificate.CreationTimestamp.Time)},
		{"secret", spec.SecretName},
		{"issuer", f.issuerName()},
		{"common name", print.OrNone(cmp.Or(spec.CommonName, spec.LiteralSubject))},
		{"names", print.OrNone(strings.Join(names, ", "))},
		{"revision", revision(status.Revision)},
		{"not before", f.at(status.NotBefore)},
		{"not after", f.at(status.NotAfter)},
		{"renewal", f.at(status.RenewalTime)},
	}
	rows = append(rows, explain.SuggestedRenewalOf(f.Certificate).Rows()...)
	if attempts := ptr.Deref(status.FailedIssuanceAttempts, 0); attempts > 0 {
		rows = append(rows, []string{"failed", fmt.Sprintf("%d in a row, last %s", attempts, f.at(status.LastFailureTime))})
	}
	return rows
}

func (f facts) issuerName() string {
	ref := f.Issuer.Ref
	if certmanager.IsBuiltIn(ref) {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Name + " of " + ref.Group
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

// conditionRows returns conditions as rows of text.
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
	if events.Unknown != "" {
		p.Section(title, [][]string{{events.Unknown}})
		return
	}
	var rows [][]string
	for _, event := range events.List {
		rows = append(rows, []string{f.ago(event.Time), event.Type, event.Reason, event.Note})
	}
	p.Section(title, rows)
}

func (f facts) writeIssuer(p *print.Page) {
	title := f.issuerName()
	if f.Issuer.Object == nil {
		p.Section(title, [][]string{{f.issuerProblem()}})
		return
	}
	rows := f.conditionRows(f.Issuer.Conditions())
	if len(rows) == 0 {
		rows = [][]string{{"has not been processed yet"}}
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
		title, why := fmt.Sprintf("CertificateRequest for revision %d", issuance.NextRevision(f.Certificate)), "none: no certificate is being issued"
		switch {
		case f.RequestsUnknown != "":
			why = f.RequestsUnknown
		case f.IsIssuing():
			why = "not created yet"
		}
		p.Section(title, [][]string{{why}})
		return
	}
	title := "CertificateRequest " + f.Next.Request.Name
	rows := f.conditionRows(f.Next.Conditions())
	if len(rows) == 0 {
		rows = [][]string{{"has not been approved or denied yet"}}
	}
	p.Section(title, rows)
	f.writeEvents(p, "Events of "+title, f.Next.Events)
}
