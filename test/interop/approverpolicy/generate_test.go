package approverpolicy

import (
	"math/rand/v2"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// generator makes random policies and requests. Their vocabulary is small, so
// that many policies apply and many requests are approved.
type generator struct {
	*rand.Rand
	// loose policies permit most requests.
	loose bool
}

// chance reports whether something is the case that is so in p of 100 cases.
func (g generator) chance(p int) bool { return g.IntN(100) < p }

func pick[T any](g generator, of []T) T { return of[g.IntN(len(of))] }

// some returns up to most values, which can be equal.
func some[T any](g generator, of []T, most int) []T {
	values := make([]T, 0, most)
	for range g.IntN(most + 1) {
		values = append(values, pick(g, of))
	}
	return values
}

// unless returns the first chance, for loose policies the second.
func (g generator) unless(strict, loose int) int {
	if g.loose {
		return loose
	}
	return strict
}

// maybe returns a value in p of 100 cases, otherwise nil.
func maybe[T any](g generator, p int, value func() T) *T {
	if !g.chance(p) {
		return nil
	}
	return new(value())
}

var (
	dnsNames   = []string{"a.example.com", "b.example.com", "*.example.com", "example.com", "web.shop.svc", "localhost"}
	emails     = []string{"ann@corp", "bob@corp.example", "ann@x"}
	uris       = []string{"spiffe://corp/ns/shop/sa/web", "https://a.b/c?d=e#f", "urn:x:y", "https://a.b/%7Ec", "HTTP://A.B/%c3%a9"}
	texts      = []string{"web-1", "shop", "ann", "x", "", "a*", "é", "web", "ann@corp", "Straße", "x\ty", `q"q`}
	patterns   = []string{"*", "*", "*", "*.example.com", "web*", "*corp", "ann*", "x", "", "a*m", "**", "spiffe://corp/*", "10.*", "*:*", "é*", "*é", "a**e*m", "[]", "?"}
	otherNames = []string{"1.3.6.1.4.1.311.20.2.3", "1.2.3", "2.999.1"}
	attributes = []string{"1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25", "2.5.4.42", "1.2.3"}
	usages     = []cmv1.KeyUsage{"server auth", "client auth", "digital signature", "any"}
	namespaces = []string{"shop", "shop-2", "x"}
	usernames  = []string{"ann", "system:serviceaccount:shop:web", "system:serviceaccount:a:b", "system:serviceaccount::", ""}
	groups     = []string{"system:authenticated", "devs", "é"}
)

// rules are good ones, failing ones, and some that do not compile.
var rules = []string{
	`true`, `true`, `true`, `true`, `self.size() < 30`, `self != 'x'`, `!self.contains('*')`, `false`,
	`self.endsWith(cr.namespace)`, `self.startsWith(cr.name)`, `cr.username == 'ann'`, `'devs' in cr.groups`,
	`cr.groups.exists(g, g.startsWith('system:'))`, `cr.groups.all(g, g != self)`, `has(cr.username)`, `has(cr.groups)`, `!has(cr.namespace)`,
	`isServiceAccount(cr.username)`, `serviceAccount(cr.username).getName() == 'web'`, `serviceAccount(cr.username).getNamespace() == cr.namespace`,
	`serviceAccount(self).getName() == 'web'`, `serviceAccount(cr.username) == serviceAccount('system:serviceaccount:shop:web')`,
	`serviceAccount(cr.username) != serviceAccount(self)`, `[serviceAccount('system:serviceaccount:a:b')].exists(a, a == serviceAccount(cr.username))`,
	`type(serviceAccount(cr.username)) == string`, `string(type(self)) == 'string'`, `dyn(serviceAccount(cr.username)) == dyn(1)`,
	`self.matches('^[a-z0-9.-]+$')`, `self.matches('[')`, `self.matches(self)`, `self.split('.')[1] == 'example'`, `self.split('.', 1)[0] == self`,
	`self.split('').join('-').size() > 3`, `self.substring(3) == 'x'`, `self.charAt(1) == '.'`, `self.indexOf('.') > 0`, `self.lastIndexOf('m', 2) == -1`,
	`self.lowerAscii() == self`, `self.upperAscii() != self`, `self.replace('.', '', 1) != self`, `self.trim() == self`, `self.reverse() != self`,
	`strings.quote(self) == '"' + self + '"'`, `'%s/%d/%.2f'.format([self, 1, 2.5]) != ''`, `'%s'.format([cr]) != ''`, `'%s'.format([cr.groups]) != '[]'`, `'%d'.format([self]) == ''`,
	`int(self) > 1`, `double(self) > 1.0`, `duration(self) > duration('1h')`, `timestamp(self) > timestamp('2020-01-01T00:00:00Z')`, `bytes(self).size() == self.size()`,
	`self == cr.name || cr.name.size() / 0 == 1`, `self == 'x' || 1 / 0 == 1`, `{'a': 1}[self] == 1`, `[1, 2][self.size()] == 1`, `{self: 1} == {'x': 1}`, `9223372036854775807 + self.size() > 0`,
	`cr == cm.io.policy.pkg.internal.approver.validation.CertificateRequest{name: cr.name}`, `cr.groups == ['devs']`, `cr != cr`, `type(cr) == type(self)`,
	`cr`, `self`, `1`, `dyn(true)`, `null`, `self ==`, `selv == ''`, `cr.x == ''`, `self.x == ''`, `cr == 1`, `cr.name + 1 == ''`, `cr.groups.size()`, `self.foo()`, `foo(self)`, `serviceAccount(1)`,
	`self in cr.name`, `has(self)`, `cr.groups.map(g, g)`, `cr.groups.map(g, g).size() == 0`, `cr.groups.filter(g, g == self).size() > 0`, `cr.groups.exists_one(g, true)`, `optional.of(self).hasValue()`,
	"self == 'a' &&\n  self == 'b'", `self == "é"`, `'é' + selv == ''`, `cr.username.startsWith('system:') ? isServiceAccount(cr.username) : self.size() > 2`, ``, `"`, `'a' == `, `// x`, `cr.groups[0] == 'devs'`, `cr.groups[7] == 'devs'`,
	`math.greatest(1, 2) == 2`, `self.format([]) == self`, `'%'.format([]) == ''`, `'%s %s'.format([self]) == ''`, `[3, 1].sort() == [1, 3]`, `sets.contains(cr.groups, ['devs'])`, `base64.encode(b'a') == ''`,
	`size(self) > 0 && size(cr.groups) >= 0 && size('é') == 1`, `cr.name < cr.namespace`, `cr < cr`, `self.getName() == ''`, `isServiceAccount(self) != isServiceAccount(cr.username)`, `(self + self).size() == 2 * self.size()`,
	`'0123456789'.split('').all(a, '0123456789'.split('').all(b, '0123456789'.split('').all(c, '0123456789'.split('').all(d, '0123456789'.split('').all(e, '0123456789'.split('').all(f, a + b + c + d + e + f != self))))))`,
}

func (g generator) rule() approverpolicy.ValidationRule {
	return approverpolicy.ValidationRule{Rule: pick(g, rules), Message: maybe(g, 40, func() string { return pick(g, texts) })}
}

func (g generator) rules() []approverpolicy.ValidationRule {
	var list []approverpolicy.ValidationRule
	for g.chance(g.unless(20, 2)) {
		list = append(list, g.rule())
	}
	return list
}

func (g generator) required() *bool {
	return maybe(g, g.unless(30, 5), func() bool { return g.chance(40) })
}

// values allows everything in most cases.
func (g generator) values() *approverpolicy.AllowedValues {
	return maybe(g, g.unless(75, 98), func() approverpolicy.AllowedValues {
		return approverpolicy.AllowedValues{Values: g.patternList(), Required: g.required(), Validations: g.rules()}
	})
}

func (g generator) patternList() *[]string {
	return maybe(g, g.unless(85, 99), func() []string {
		if g.chance(g.unless(60, 98)) {
			return append(some(g, patterns, 2), "*")
		}
		return some(g, patterns, 3)
	})
}

func (g generator) pattern() string {
	if g.loose {
		return "*"
	}
	return pick(g, patterns)
}

func (g generator) value() *approverpolicy.AllowedValue {
	return maybe(g, g.unless(75, 98), func() approverpolicy.AllowedValue {
		return approverpolicy.AllowedValue{Value: maybe(g, g.unless(85, 99), g.pattern), Required: g.required(), Validations: g.rules()}
	})
}

func (g generator) byOID(oids []string) []approverpolicy.AllowedByOID {
	var list []approverpolicy.AllowedByOID
	for _, oid := range oids {
		if v := g.values(); v != nil && g.chance(g.unless(60, 90)) {
			list = append(list, approverpolicy.AllowedByOID{OID: oid, AllowedValues: *v})
		}
	}
	return list
}

func (g generator) usageList() []cmv1.KeyUsage {
	if g.loose {
		return usages
	}
	return append(some(g, usages, 3), pick(g, []cmv1.KeyUsage{"*", "* auth", "any"}))
}

func (g generator) allowed() approverpolicy.Allowed {
	return approverpolicy.Allowed{
		CommonName: g.value(), DNSNames: g.values(), IPAddresses: g.values(), URIs: g.values(), EmailAddresses: g.values(),
		IsCA:       maybe(g, g.unless(50, 90), func() bool { return g.chance(60) }),
		Usages:     maybe(g, 80, g.usageList),
		OtherNames: g.byOID(otherNames),
		Subject: maybe(g, g.unless(85, 99), func() approverpolicy.AllowedSubject {
			return approverpolicy.AllowedSubject{
				Organizations: g.values(), Countries: g.values(), OrganizationalUnits: g.values(), Localities: g.values(), Provinces: g.values(),
				StreetAddresses: g.values(), PostalCodes: g.values(), SerialNumber: g.value(), OtherAttributes: g.byOID(attributes),
			}
		}),
	}
}

func (g generator) duration() metav1.Duration {
	return metav1.Duration{Duration: time.Duration(g.IntN(6)) * 30 * time.Minute}
}

func (g generator) constraints() approverpolicy.Constraints {
	return approverpolicy.Constraints{
		MinDuration: maybe(g, 30, g.duration), MaxDuration: maybe(g, 30, g.duration),
		PrivateKey: maybe(g, 40, func() approverpolicy.PrivateKeyConstraints {
			size := func() int { return pick(g, []int{-1, 0, 256, 384, 521, 2048, 3072}) }
			return approverpolicy.PrivateKeyConstraints{
				Algorithm: maybe(g, 40, func() cmv1.PrivateKeyAlgorithm { return pick(g, []cmv1.PrivateKeyAlgorithm{"RSA", "ECDSA", "Ed25519"}) }),
				MinSize:   maybe(g, 20, size), MaxSize: maybe(g, 20, size),
			}
		}),
	}
}

func (g generator) selector() approverpolicy.Selector {
	pattern := func(of ...string) *string { return maybe(g, 50, func() string { return pick(g, of) }) }
	return approverpolicy.Selector{
		IssuerRef: maybe(g, 80, func() approverpolicy.IssuerSelector {
			return approverpolicy.IssuerSelector{
				Name: pattern("*", "*", "*", "ca", "c*", "x"), Kind: pattern("*", "*", "*", "Issuer", "*Issuer"), Group: pattern("*", "*", "*", "*", "cert-manager.io", "*.io", ""),
			}
		}),
		Namespace: maybe(g, 40, func() approverpolicy.NamespaceSelector {
			return approverpolicy.NamespaceSelector{
				MatchNames:  some(g, []string{"*", "*", "shop", "shop*", "x"}, 2),
				MatchLabels: pick(g, []map[string]string{nil, nil, {}, {"team": "web"}, {"team": "web", "tier": "1"}, {"team": "db"}}),
			}
		}),
	}
}

// policy returns a policy that could have been stored.
func (g generator) policy(name string) *approverpolicy.CertificateRequestPolicy {
	g.loose = g.chance(40)
	return &approverpolicy.CertificateRequestPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy.cert-manager.io/v1alpha1", Kind: "CertificateRequestPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       approverpolicy.Spec{Selector: g.selector(), Allowed: maybe(g, 95, g.allowed), Constraints: maybe(g, g.unless(40, 10), g.constraints)},
		Status:     approverpolicy.Status{Conditions: g.conditions()},
	}
}

func (g generator) conditions() []metav1.Condition {
	var list []metav1.Condition
	if g.chance(10) {
		list = append(list, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue})
	}
	if g.chance(93) {
		status := metav1.ConditionTrue
		if g.chance(10) {
			status = pick(g, []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown})
		}
		list = append(list, metav1.Condition{Type: "Ready", Status: status})
	}
	return list
}

// brokenPolicy returns a policy that the definition of the kind may permit, and
// that has mistakes.
func (g generator) brokenPolicy() *approverpolicy.CertificateRequestPolicy {
	oids := append([]string{"2.5.4.10", "2.5.4.3", "1.02", "", "x", "1", "-1.2", "1.-2", "1.+2", "1.99999999999999999999", "1..2", " 1.2", "2.5.4.17"}, otherNames...)
	p := g.policy("p")
	if g.chance(20) {
		p.Spec.Plugins = map[string]approverpolicy.Plugin{pick(g, texts): {}, pick(g, texts): {Values: map[string]string{"a": "b"}}}
	}
	if g.chance(20) {
		p.Spec.Selector = approverpolicy.Selector{}
	}
	if n := p.Spec.Selector.Namespace; n != nil && g.chance(30) {
		n.MatchLabels = map[string]string{pick(g, []string{"a b", "x/y/z", "ok", "-"}): pick(g, []string{"v", "a b", "-"})}
	}
	if a := p.Spec.Allowed; a != nil {
		a.OtherNames = append(a.OtherNames, g.byOID(some(g, oids, 2))...)
		if a.Subject != nil {
			a.Subject.OtherAttributes = append(a.Subject.OtherAttributes, g.byOID(some(g, oids, 2))...)
		}
	}
	if c := p.Spec.Constraints; c != nil {
		c.MinDuration = maybe(g, 40, func() metav1.Duration { return metav1.Duration{Duration: time.Duration(g.IntN(4)-2) * time.Hour} })
		c.MaxDuration = maybe(g, 40, func() metav1.Duration { return metav1.Duration{Duration: time.Duration(g.IntN(4)-2) * time.Hour} })
		if k := c.PrivateKey; k != nil {
			size := func() int { return pick(g, []int{-1, 0, 1, 8192, 8193}) }
			k.MinSize, k.MaxSize = maybe(g, 50, size), maybe(g, 50, size)
			k.Algorithm = maybe(g, 60, func() cmv1.PrivateKeyAlgorithm {
				return pick(g, []cmv1.PrivateKeyAlgorithm{"RSA", "Ed25519", "DSA", ""})
			})
		}
	}
	return p
}
