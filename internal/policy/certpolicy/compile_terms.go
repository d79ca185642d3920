package certpolicy

import (
	"crypto/rsa"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/duration"
)

// termCompiler compiles the conditions on the key, the usages, the lifetime and the extensions.
type termCompiler struct{ *compiler }

// keys compiles the conditions on the public key.
func (c termCompiler) keys(path *field.Path, k *v1alpha1.KeyConditions) {
	if k == nil {
		return
	}
	for i, t := range k.Types {
		if _, ok := rsaKeyBits[t]; !ok && !slices.Contains(otherKeyTypes, t) {
			c.unsupported(path.Child("types").Index(i), t, keyTypeNames())
		}
	}
	if len(k.Types) == 0 && k.RSA == nil && k.Reuse == "" {
		c.required(path, "types, rsa or reuse must be given")
	}
	c.keyReuse(path.Child("reuse"), k.Reuse)
	if k.RSA != nil {
		checkRSABits(c.checker, path.Child("rsa", "minBits"), k.RSA.MinBits)
		checkRSABits(c.checker, path.Child("rsa", "maxBits"), k.RSA.MaxBits)
	}
	if r := k.RSA; r != nil && r.MinBits != nil && r.MaxBits != nil && *r.MinBits > *r.MaxBits {
		c.invalid(path.Child("rsa", "maxBits"), *r.MaxBits, "must not be less than minBits")
	}
	if len(k.Types) == 0 && k.RSA == nil {
		return
	}
	conditions := *k
	would := keyExamples(k)
	c.add(func(e *evaluation) []finding {
		if keyPermitted(&conditions, e.content) {
			return nil
		}
		name := pki.KeyName(e.content.Key)
		return []finding{{at: "certificate.keys", reason: ReasonKey, field: "key", value: name, would: would,
			message: fmt.Sprintf("the key is %s, and the policy permits %s", name, enumerated(would))}}
	})
}

// The smallest and the largest RSA key, in bits.
const minRSABits, maxRSABits = 1024, 16384

func checkRSABits(c *checker, path *field.Path, bits *int32) {
	if bits != nil && (*bits < minRSABits || *bits > maxRSABits) {
		c.invalid(path, *bits, fmt.Sprintf("must be from %d to %d", minRSABits, maxRSABits))
	}
}

// rsaKeyBits are the sizes of RSA keys by the names of their types.
var rsaKeyBits = map[v1alpha1.KeyType]int{v1alpha1.RSA2048: 2048, v1alpha1.RSA3072: 3072, v1alpha1.RSA4096: 4096}

var otherKeyTypes = []v1alpha1.KeyType{v1alpha1.ECDSAP256, v1alpha1.ECDSAP384, v1alpha1.ECDSAP521, v1alpha1.ED25519}

func keyTypeNames() []string {
	list := []string{string(v1alpha1.RSA2048), string(v1alpha1.RSA3072), string(v1alpha1.RSA4096)}
	for _, t := range otherKeyTypes {
		list = append(list, string(t))
	}
	return list
}

// keyPermitted: the size of an RSA key is the size of its modulus in bits, not in
// bytes.
func keyPermitted(k *v1alpha1.KeyConditions, x *content) bool {
	key, isRSA := x.Key.(*rsa.PublicKey)
	if !isRSA {
		return slices.Contains(k.Types, v1alpha1.KeyType(pki.KubernetesKeyType(x.Key)))
	}
	bits := key.N.BitLen()
	for _, t := range k.Types {
		if rsaKeyBits[t] == bits {
			return true
		}
	}
	return k.RSA != nil && (k.RSA.MinBits == nil || bits >= int(*k.RSA.MinBits)) && (k.RSA.MaxBits == nil || bits <= int(*k.RSA.MaxBits))
}

func keyExamples(k *v1alpha1.KeyConditions) []string {
	var texts []string
	for _, t := range k.Types {
		texts = append(texts, string(t))
	}
	texts = inOrder(texts)
	if k.RSA == nil {
		return texts
	}
	text := "RSA"
	switch min, max := k.RSA.MinBits, k.RSA.MaxBits; {
	case min != nil && max != nil:
		text += fmt.Sprintf(" of %d to %d bits", *min, *max)
	case min != nil:
		text += fmt.Sprintf(" of at least %d bits", *min)
	case max != nil:
		text += fmt.Sprintf(" of at most %d bits", *max)
	}
	return append(texts, text)
}

// usages compiles the conditions on usages. An Allow policy must have them.
func (c termCompiler) usages(path *field.Path, u *v1alpha1.UsageConditions) {
	if u == nil {
		if c.allows() {
			c.required(path, "an Allow policy must list the usages that it permits, such as {allowed: [digital signature, key encipherment, server auth]}")
		}
		return
	}
	allowed := checkUsages(c.checker, path.Child("allowed"), u.Allowed)
	required := checkUsages(c.checker, path.Child("required"), u.Required)
	switch {
	case len(allowed) == 0 && c.allows():
		c.required(path.Child("allowed"), "an Allow policy must list the usages that it permits")
	case len(allowed) > 0:
		for i, usage := range required {
			if !usageAllowed(allowed, usage) {
				c.invalid(path.Child("required").Index(i), u.Required[i], "must be among the allowed usages")
			}
		}
		allowed = inOrder(allowed)
		c.add(func(e *evaluation) []finding { return refuseUsages(e.content, allowed) })
	}
	if len(required) > 0 {
		required = inOrder(required)
		c.add(func(e *evaluation) []finding { return requireUsages(e.content, required) })
	}
}

// usageNames checks usages, and returns the names with which they are compared.
func checkUsages(c *checker, path *field.Path, usages []string) []string {
	var list []string
	for i, usage := range usages {
		if _, err := pki.ParseUsages([]string{usage}); err != nil && !isOID(usage) {
			c.invalid(path.Index(i), usage, `must be a usage of CertificateSigningRequests, such as "server auth", or the object identifier of an extended usage`)
		}
		list = append(list, usageName(usage))
	}
	return list
}

// usageAny is the extended usage that contains all others (RFC 5280 section
// 4.2.1.12).
const usageAny = "any"

func usageAllowed(allowed []string, usage string) bool {
	return slices.Contains(allowed, usage) || slices.Contains(allowed, usageAny) && isExtended(usage)
}

func isExtended(usage string) bool {
	parsed, err := pki.ParseUsages([]string{usage})
	return err != nil || len(parsed.Extended) > 0
}

func refuseUsages(x *content, allowed []string) []finding {
	var found []finding
	for i, usage := range x.Usages {
		if usageAllowed(allowed, usage) {
			continue
		}
		found = append(found, finding{at: "certificate.usages.allowed", reason: ReasonUsages, field: fmt.Sprintf("usages[%d]", i), value: usage, would: allowed,
			message: fmt.Sprintf("the usage %s is none of %s", quoted(usage), quotedList(allowed))})
	}
	return found
}

func requireUsages(x *content, required []string) []finding {
	if !x.usagesKnown {
		return nil
	}
	var found []finding
	for _, usage := range required {
		if !slices.Contains(x.Usages, usage) {
			found = append(found, finding{at: "certificate.usages.required", reason: ReasonUsageRequired, field: "usages", would: []string{usage},
				message: fmt.Sprintf("the usage %s is required", quoted(usage))})
		}
	}
	return found
}

// lifetime compiles the limits for lifetimes.
func (c termCompiler) lifetime(path *field.Path, l *v1alpha1.LifetimeConditions) {
	if l == nil {
		return
	}
	for _, one := range []struct {
		name  string
		value *metav1.Duration
	}{{"min", l.Min}, {"max", l.Max}, {"default", l.Default}} {
		if one.value != nil && one.value.Duration <= 0 {
			c.invalid(path.Child(one.name), one.value.Duration.String(), "must be more than zero")
		}
	}
	if l.Exceeding != "" {
		oneOf(c.checker, path.Child("exceeding"), l.Exceeding, v1alpha1.LifetimeRefuse, v1alpha1.LifetimeShorten)
	}
	switch {
	case l.Min != nil && l.Max != nil && l.Min.Duration > l.Max.Duration:
		c.invalid(path.Child("max"), l.Max.Duration.String(), "must not be less than min")
	case l.Default != nil && l.Max != nil && l.Default.Duration > l.Max.Duration:
		c.invalid(path.Child("default"), l.Default.Duration.String(), "must not be more than max")
	case l.Default != nil && l.Min != nil && l.Default.Duration < l.Min.Duration:
		c.invalid(path.Child("default"), l.Default.Duration.String(), "must not be less than min")
	case l.Exceeding == v1alpha1.LifetimeShorten && l.Max == nil:
		c.required(path.Child("max"), "Shorten needs the lifetime to which certificates are shortened")
	}
	if l.Min != nil {
		c.add(func(e *evaluation) []finding { return atLeast(e.content.lifetime, l.Min.Duration) })
	}
	if l.Max != nil {
		c.policy.needs.Signer = true
		c.add(func(e *evaluation) []finding { return atMost(e.in, e.content.lifetime, l) })
	}
}

func atLeast(l lifetime, min time.Duration) []finding {
	if !l.known || l.longest >= min {
		return nil
	}
	return []finding{{at: "certificate.lifetime.min", reason: ReasonTooShort, field: "duration", value: duration.Format(l.longest),
		would: []string{"at least " + duration.Format(min)}, message: fmt.Sprintf("the lifetime %s is shorter than %s", duration.Format(l.longest), duration.Format(min))}}
}

// atMost: without a requested lifetime, our signers issue at most max. Other signers
// are not bound by it.
func atMost(in *Input, l lifetime, conditions *v1alpha1.LifetimeConditions) []finding {
	max := conditions.Max.Duration
	f := finding{at: "certificate.lifetime.max", reason: ReasonTooLong, field: "duration", would: []string{"at most " + duration.Format(max)}}
	finished := in.Certificate != nil || in.Prospective != nil
	signer := in.Facts.Signer
	ours := signer.Value != nil && signer.Value.Ours
	switch {
	case l.known && l.shortest <= max:
		return nil
	case !finished && !signer.Known && (!l.known || conditions.Exceeding == v1alpha1.LifetimeShorten):
		return []finding{{at: f.at, open: "the signer " + SignerName(in.Request)}}
	case !l.known && ours:
		return nil
	case !l.known:
		f.message = fmt.Sprintf("the request must name a lifetime of at most %s, because the signer is not of this server", duration.Format(max))
	case !finished && ours && conditions.Exceeding == v1alpha1.LifetimeShorten:
		return nil
	default:
		f.value, f.message = duration.Format(l.shortest), fmt.Sprintf("the lifetime %s is longer than %s", duration.Format(l.shortest), duration.Format(max))
	}
	return []finding{f}
}

// authority compiles the conditions on certificates of CAs.
func (c termCompiler) authority(path *field.Path, a *v1alpha1.AuthorityConditions) {
	switch {
	case a == nil && !c.allows():
		return
	case a == nil || !a.Allowed:
		if a != nil && (a.MaxPathLength != nil || a.Permitted != nil || a.NameConstraints == v1alpha1.NameConstraintsRequired) {
			c.invalid(path.Child("allowed"), false, "must be true for the other conditions to have an effect")
		}
		c.add(refuseCA)
		return
	}
	c.atLeast(path.Child("maxPathLength"), a.MaxPathLength, 0)
	if a.NameConstraints != "" {
		oneOf(c.checker, path.Child("nameConstraints"), a.NameConstraints, v1alpha1.NameConstraintsRequired, v1alpha1.NameConstraintsOptional)
	}
	if a.MaxPathLength != nil {
		max := int(*a.MaxPathLength)
		c.add(func(e *evaluation) []finding { return limitPath(e.content, max) })
	}
	if a.NameConstraints == v1alpha1.NameConstraintsRequired {
		c.add(requireConstraints)
	}
	if a.Permitted != nil {
		c.constraints(path.Child("permitted"), a.Permitted)
	}
}

func refuseCA(e *evaluation) []finding {
	if !e.content.IsCA {
		return nil
	}
	return []finding{{at: "certificate.authority.allowed", reason: ReasonCA, field: "isCA", value: "true",
		would: []string{"a certificate that is not for a CA"}, message: "the certificate would be for a CA, and the policy permits none"}}
}

func limitPath(x *content, max int) []finding {
	if !x.IsCA || x.PathLength != nil && *x.PathLength <= max {
		return nil
	}
	value, text := "", "no limit for the length of its path"
	if x.PathLength != nil {
		value = fmt.Sprint(*x.PathLength)
		text = "the path length " + value
	}
	return []finding{{at: "certificate.authority.maxPathLength", reason: ReasonCA, field: "maxPathLength", value: value,
		would: []string{fmt.Sprintf("at most %d", max)}, message: fmt.Sprintf("the CA would have %s, and the policy permits at most %d", text, max)}}
}

func requireConstraints(e *evaluation) []finding {
	if !e.content.IsCA || e.content.constraints != nil {
		return nil
	}
	return []finding{{at: "certificate.authority.nameConstraints", reason: ReasonCA, field: "nameConstraints",
		would: []string{"name constraints"}, message: "the certificate of a CA must have name constraints"}}
}

// extensions compiles the conditions on requested extensions.
func (c termCompiler) extensions(path *field.Path, x *v1alpha1.ExtensionConditions) {
	if x == nil && !c.allows() {
		return
	}
	at, allowed := "certificate.extensions", []string(nil)
	if x != nil {
		at, allowed = "certificate.extensions.allowed", x.Allowed
		for i, oid := range allowed {
			c.objectIdentifier(path.Child("allowed").Index(i), oid, map[string]bool{})
		}
		allowed = inOrder(allowed)
	}
	c.add(func(e *evaluation) []finding {
		var found []finding
		for i, oid := range e.content.extensions {
			if !slices.Contains(allowed, oid) {
				found = append(found, finding{at: at, reason: ReasonExtensions, field: fmt.Sprintf("extensions[%d]", i), value: oid, would: allowed,
					message: fmt.Sprintf("the request has the extension %s, which the policy does not permit", oid)})
			}
		}
		return found
	})
}
