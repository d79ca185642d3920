package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Policy has a signer's requirements for certificates beyond those of RFC 5280.
type Policy struct {
	// MinRSABits is the smallest RSA key that gets a certificate.
	MinRSABits int
	// OutlivesCA lets the certificate end after its CA. Verifiers refuse it from
	// the CA's end on.
	OutlivesCA bool
	// Status adds how relying parties learn of a revocation.
	Status StatusInfo
	// Rule, if not nil, returns another error about the finished certificate,
	// whose signature is not valid yet.
	Rule func(*x509.Certificate) error
}

func (p Policy) problems(leaf *x509.Certificate) []error {
	if p.Rule == nil {
		return nil
	}
	if err := p.Rule(leaf); err != nil {
		return []error{err}
	}
	return nil
}

// Linted is a certificate that has passed the linter and is not yet signed.
// Only Authority.Lint, Authority.LintCA and LintSelfSigned make one that can be
// signed.
type Linted struct {
	key   signingKey
	draft *x509.Certificate // what will be signed, without a valid signature
}

// RefusedError is the linter's verdict: the certificate, or the list, must not exist.
type RefusedError struct {
	Problems []error
}

func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, problem := range e.Problems {
		texts[i] = problem.Error()
	}
	return "refusing to sign: " + strings.Join(texts, "; ")
}

// Unwrap returns the problems, for errors.Is and errors.As.
func (e *RefusedError) Unwrap() []error { return e.Problems }

// Lint checks the end-entity certificate that template describes, issued by
// this CA: it must follow RFC 5280, lie within the CA's powers and meet the
// policy. The rules check the finished encoding, not the template: the
// certificate is first encoded without a trusted signature. All problems are
// returned in one *RefusedError.
func (a *Authority) Lint(template *x509.Certificate, policy Policy) (*Linted, error) {
	return a.lint(template, policy, endEntity)
}

// LintCA is like Lint, for the certificate of a CA below this one. It must be
// fit to issue certificates, and this CA and those above must allow one more CA
// below themselves.
func (a *Authority) LintCA(template *x509.Certificate, policy Policy) (*Linted, error) {
	return a.lint(template, policy, authority)
}

func (a *Authority) lint(template *x509.Certificate, policy Policy, kind kind) (*Linted, error) {
	if err := CheckPublicKey(template.PublicKey, policy.MinRSABits); err != nil {
		return nil, &RefusedError{Problems: []error{err}}
	}
	complete, err := a.complete(template)
	if err != nil {
		return nil, &RefusedError{Problems: []error{err}}
	}
	policy.Status.addTo(complete, a.ca)
	leaf, err := a.proof.issue(complete)
	if err != nil {
		return nil, &RefusedError{Problems: []error{err}}
	}
	d := draft{leaf: leaf, template: complete, kind: kind, ca: a.ca, room: a.room, proof: a.proof, outlives: policy.OutlivesCA, status: policy.Status}
	if problems := slices.Concat(d.problems(rules), d.problems(issuerRules), policy.problems(leaf)); len(problems) > 0 {
		return nil, &RefusedError{Problems: problems}
	}
	return &Linted{key: a.key, draft: leaf}, nil
}

// LintSelfSigned checks the certificate that template describes, signed with
// its own key: a root CA if template.IsCA is set, otherwise an end entity whose
// relying parties trust the certificate itself. It must follow RFC 5280 with
// one exception: without a subject it has no issuer either, which section
// 4.1.2.4 requires.
func LintSelfSigned(template *x509.Certificate, key crypto.Signer, policy Policy) (*Linted, error) {
	if err := CheckPublicKey(key.Public(), policy.MinRSABits); err != nil {
		return nil, &RefusedError{Problems: []error{err}}
	}
	id, err := KeyID(key.Public())
	if err != nil {
		return nil, &RefusedError{Problems: []error{err}}
	}
	complete := *template
	complete.PublicKey, complete.SubjectKeyId = key.Public(), keptID(template, id)
	leaf, err := proof{ca: &complete}.issue(&complete)
	if err != nil {
		return nil, &RefusedError{Problems: []error{err}}
	}
	d := draft{leaf: leaf, template: &complete, kind: kindOf(template)}
	if problems := append(d.problems(rules), policy.problems(leaf)...); len(problems) > 0 {
		return nil, &RefusedError{Problems: problems}
	}
	return &Linted{key: signingKey{key, leaf}, draft: leaf}, nil
}

// complete returns template with the key identifiers of RFC 5280 sections 4.2.1.1 and
// 4.2.1.2. A verifier uses them to find this CA among several with the same name, which
// exist while a CA is being replaced. The template can set the CA's identifier.
func (a *Authority) complete(template *x509.Certificate) (*x509.Certificate, error) {
	subject, err := KeyID(template.PublicKey)
	if err != nil {
		return nil, err
	}
	issuer, err := authorityKeyID(a.ca)
	if err != nil {
		return nil, err
	}
	complete := *template
	complete.SubjectKeyId, complete.AuthorityKeyId = keptID(template, subject), issuer
	return &complete, nil
}

// authorityKeyID returns the key identifier by which certificates and lists name their CA.
func authorityKeyID(ca *x509.Certificate) ([]byte, error) {
	if len(ca.SubjectKeyId) > 0 {
		return ca.SubjectKeyId, nil
	}
	return KeyID(ca.PublicKey)
}

// keptID returns the key identifier that the template of a CA sets, because an
// earlier certificate of the CA has it, otherwise the usual one.
func keptID(template *x509.Certificate, usual []byte) []byte {
	if template.IsCA && len(template.SubjectKeyId) > 0 {
		return template.SubjectKeyId
	}
	return usual
}

// kind is the purpose of a certificate.
type kind int

const (
	endEntity kind = iota
	authority
)

func (k kind) String() string {
	if k == authority {
		return "a CA certificate"
	}
	return "an end-entity certificate"
}

func kindOf(template *x509.Certificate) kind {
	if template.IsCA {
		return authority
	}
	return endEntity
}

// draft is a certificate as the linter sees it.
type draft struct {
	leaf     *x509.Certificate // parsed from its encoding
	template *x509.Certificate // the requested content
	kind     kind
	// The fields below are set if a CA issues the certificate.
	ca    *x509.Certificate
	room  int // how many CAs may be below ca; unlimited if negative
	proof proof
	// outlives permits the certificate to expire after ca.
	outlives bool
	status   StatusInfo
}

func (d draft) problems(rules []func(draft) error) []error {
	var problems []error
	for _, rule := range rules {
		if err := rule(d); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// rules are the rules of the linter: each returns an error or nil.
var rules = []func(draft) error{
	draft.checkSerial,
	draft.checkValidity,
	draft.checkSubject,
	draft.checkNames,
	draft.checkUnchanged,
	draft.checkKind,
	draft.checkExtensions,
	draft.checkKeyIDs,
	draft.checkListURL,
	draft.checkNoRevAvail,
}

// issuerRules are the rules between a certificate and the CA that issues it.
var issuerRules = []func(draft) error{
	draft.checkWithinValidity,
	draft.checkOwnName,
	draft.checkExtendedUsages,
	draft.checkRoom,
	draft.checkPath,
}

// checkSerial: RFC 5280 section 4.1.2.2. Twenty octets hold 159 bits, since
// the first bit of an INTEGER is its sign.
func (d draft) checkSerial() error {
	if serial := d.leaf.SerialNumber; serial.Sign() <= 0 || serial.BitLen() > 159 {
		return errors.New("serial number must be positive and of at most 20 octets")
	}
	return nil
}

// checkValidity: RFC 5280 section 4.1.2.5.
func (d draft) checkValidity() error {
	if !d.leaf.NotAfter.After(d.leaf.NotBefore) {
		return errors.New("certificate would end before it begins")
	}
	return nil
}

// checkWithinValidity: a certificate's validity lies within the CA's own.
func (d draft) checkWithinValidity() error {
	switch {
	case d.leaf.NotAfter.After(d.ca.NotAfter) && !d.outlives:
		return errors.New("certificate would outlive its CA")
	case d.leaf.NotBefore.Before(d.ca.NotBefore):
		return errors.New("certificate would be older than its CA")
	}
	return nil
}

// checkKind checks a certificate against its purpose.
func (d draft) checkKind() error {
	if d.kind == authority {
		return d.checkIsCA()
	}
	return d.checkNotCA()
}

// checkNotCA: RFC 5280 sections 4.2.1.9 and 4.2.1.3, "If the cA boolean is
// not asserted, then the keyCertSign bit in the key usage extension MUST NOT
// be asserted."
func (d draft) checkNotCA() error {
	switch {
	case !d.leaf.BasicConstraintsValid:
		return errors.New("basic constraints must be present")
	case d.leaf.IsCA:
		return errors.New("an end-entity certificate must not be a CA")
	case d.leaf.KeyUsage&x509.KeyUsageCertSign != 0:
		return errors.New("usage cert sign needs a CA certificate (RFC 5280 section 4.2.1.9)")
	}
	return nil
}

// checkIsCA: RFC 5280 sections 4.2.1.3 and 4.2.1.9. The caller has to check
// that a CA has a subject (section 4.1.2.6).
func (d draft) checkIsCA() error {
	switch {
	case !d.leaf.BasicConstraintsValid || !d.leaf.IsCA:
		return errors.New("a CA certificate must set CA in its basic constraints")
	case d.leaf.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("a CA certificate needs the usage cert sign (RFC 5280 section 4.2.1.3)")
	}
	return nil
}

// checkRoom: the path lengths of RFC 5280 section 4.2.1.9, of the CA and of
// those above it.
func (d draft) checkRoom() error {
	if d.kind == authority && d.room == 0 {
		return errors.New("the CA must not issue CA certificates: its path length, or the path length of a CA above it, allows no further one (RFC 5280 section 4.2.1.9)")
	}
	return nil
}

// checkExtensions permits only extensions that certificates are known to need, if they are
// not empty. The parser refuses repeated ones.
func (d draft) checkExtensions() error {
	for _, extension := range d.leaf.Extensions {
		switch {
		case d.saysNothing(extension):
			return fmt.Errorf("extension %v is empty: it must have content or be omitted (RFC 5280 section 4.2.1)", extension.Id)
		case extension.Id.Equal(OIDNameConstraints):
			if d.kind != authority {
				return errors.New("name constraints belong into CA certificates only (RFC 5280 section 4.2.1.10)")
			}
		case !leafExtensions[extension.Id.String()], d.kind == authority && extension.Id.Equal(oidPodIdentity):
			return fmt.Errorf("extension %v has no place in %v", extension.Id, d.kind)
		}
	}
	return nil
}

// saysNothing reports whether an extension has no entry although RFC 5280
// requires one (sections 4.2.1.3, 4.2.1.4, 4.2.1.6, 4.2.1.12, 4.2.1.13 and
// 4.2.2.1).
func (d draft) saysNothing(extension pkix.Extension) bool {
	switch extension.Id.String() {
	case "2.5.29.19": // basic constraints: an empty sequence for an end entity
		return false
	case OIDKeyUsage.String():
		return d.leaf.KeyUsage == 0
	}
	return bytes.Equal(extension.Value, []byte{0x30, 0x00})
}

// leafExtensions: RFC 5280 section 4.2, and Kubernetes' own.
var leafExtensions = map[string]bool{
	"2.5.29.14":         true, // subject key identifier
	"2.5.29.15":         true, // key usage
	"2.5.29.17":         true, // subject alternative name
	"2.5.29.19":         true, // basic constraints
	"2.5.29.31":         true, // CRL distribution points
	"2.5.29.32":         true, // certificate policies
	"2.5.29.35":         true, // authority key identifier
	"2.5.29.37":         true, // extended key usage
	"2.5.29.56":         true, // no revocation available
	"1.3.6.1.5.5.7.1.1": true, // authority information access

	oidPodIdentity.String(): true, // KEP-4317
}

// checkExtendedUsages: a CA that lists extended usages is limited to them. RFC
// 5280 does not specify that, but all common verifiers apply it.
func (d draft) checkExtendedUsages() error {
	if len(d.ca.ExtKeyUsage)+len(d.ca.UnknownExtKeyUsage) == 0 {
		return nil
	}
	allowed := make(map[x509.ExtKeyUsage]bool)
	for _, usage := range d.ca.ExtKeyUsage {
		allowed[usage] = true
	}
	if allowed[x509.ExtKeyUsageAny] {
		return nil
	}
	for _, usage := range d.leaf.ExtKeyUsage {
		if !allowed[usage] {
			return errBeyondCA
		}
	}
	for _, usage := range d.leaf.UnknownExtKeyUsage {
		if !slices.ContainsFunc(d.ca.UnknownExtKeyUsage, usage.Equal) {
			return errBeyondCA
		}
	}
	return nil
}

var errBeyondCA = errors.New("the CA is not allowed to issue for one of the extended usages")

// checkKeyIDs: RFC 5280 sections 4.2.1.1 and 4.2.1.2.
func (d draft) checkKeyIDs() error {
	if !bytes.Equal(d.leaf.SubjectKeyId, d.template.SubjectKeyId) ||
		!bytes.Equal(d.leaf.AuthorityKeyId, d.template.AuthorityKeyId) {
		return errors.New("key identifiers do not match the subject's and the CA's key")
	}
	return nil
}

// checkPath: a verifier that trusts the CA must accept the certificate. This
// applies the name constraints of the CA and of those above it (RFC 5280 section
// 4.2.1.10). The rest of the verification is skipped for a CA without other
// restrictions, because the other rules cover it, and it is expensive.
func (d draft) checkPath() error {
	if d.checkValidity() != nil || d.checkWithinValidity() != nil {
		return nil // reported already, and verification is not possible
	}
	if err := d.proof.verify(d.leaf); err != nil {
		return fmt.Errorf("verifying against the CA: %w", err)
	}
	return nil
}
