package explain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/process/duration"
)

// statements returns the seven statements that KEP-1513 requires of every signer, in the
// KEP's order, from the fields that enforce them.
func statements(spec v1alpha1.SignerSpec) []Statement {
	return newStatements([...]string{
		trust(spec), subjects(spec.Profile), extensions(spec.Profile), strings.Join(spec.Profile.Usages, ", ") + "; keys: " + keys(spec.Profile),
		lifetime(spec.Profile), caBit(spec.Profile), chain(spec.Chain),
	})
}

// newStatements returns statements in the KEP's order.
func newStatements(texts [7]string) []Statement {
	names := [len(texts)]string{
		"Trust distribution", "Permitted subjects", "Permitted extensions", "Key usages", "Lifetime", "CA bit", "Further PEM blocks",
	}
	var statements []Statement
	for i, text := range texts {
		statements = append(statements, Statement{names[i], text})
	}
	return statements
}

func trust(spec v1alpha1.SignerSpec) string {
	if ptr.Deref(spec.PublishTrustBundle, true) {
		return "the roots are published as ClusterTrustBundles with spec.signerName=" + spec.SignerName
	}
	return "the roots are not published: relying parties get them by other means"
}

func subjects(p v1alpha1.SignerProfile) string {
	var parts []string
	if p.Subject.FromRequest {
		parts = append(parts, "the requested subject")
	}
	for _, part := range []struct {
		name string
		from v1alpha1.CEL
	}{
		{"common name", p.Subject.CommonName}, {"organizations", p.Subject.Organizations}, {"organizational units", p.Subject.OrganizationalUnits},
		{"DNS names", p.Names.DNSNames}, {"IP addresses", p.Names.IPAddresses}, {"URIs", p.Names.URIs}, {"e-mail addresses", p.Names.EmailAddresses},
	} {
		if part.from != "" {
			parts = append(parts, part.name+" "+string(part.from))
		}
	}
	for _, rule := range p.Rules {
		parts = append(parts, "only if "+strings.TrimSpace(string(rule.Expression)))
	}
	if len(p.Annotations) > 0 {
		parts = append(parts, "pods may annotate "+strings.Join(p.Annotations, ", "))
	}
	return strings.Join(parts, "; ")
}

func extensions(p v1alpha1.SignerProfile) string {
	if p.Extensions == v1alpha1.IgnoreExtensions {
		return "alternative names and usages; other requested extensions are omitted"
	}
	return "alternative names and usages; requests for others are denied"
}

func keys(p v1alpha1.SignerProfile) string {
	var names []string
	for _, key := range profile.KeyTypesOf(p) {
		names = append(names, string(key))
	}
	return strings.Join(names, ", ")
}

func lifetime(p v1alpha1.SignerProfile) string {
	times := profile.TimesOf(p)
	text := "at most " + length(times.Maximum)
	if p.Lifetime.Default != nil {
		text += ", " + length(p.Lifetime.Default.Duration) + " if a request names none"
	}
	return fmt.Sprintf("%s, starting %s before the signature; pods refresh after %d%% of it, plus or minus %d%%",
		text, length(times.Backdate), times.RefreshPercent, times.RefreshJitter)
}

// length returns the text of a duration, to the second.
func length(d time.Duration) string { return duration.Format(d.Round(time.Second)) }

func caBit(p v1alpha1.SignerProfile) string {
	if p.CertificateAuthorities == v1alpha1.IgnoreCAs {
		return "never set; a request for it gets a certificate without it"
	}
	return "never set; requests for it are denied"
}

func chain(content v1alpha1.ChainContent) string {
	switch content {
	case v1alpha1.ChainNone:
		return "none"
	case v1alpha1.ChainIntermediatesAndRoot:
		return "the CAs between the certificate and its root, nearest first, and the root"
	default:
		return "the CAs between the certificate and its root, nearest first, without the root"
	}
}
