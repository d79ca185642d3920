package certpolicy_test

import (
	"crypto/x509/pkix"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// limit is a Limit with conditions on certificates.
func limit(certificate string) string { return "certificate: " + certificate }

// refuses is a field of a Limit whose absence permits what it refuses.
func refuses(certificate string, ask func(*asked), violation string) fieldCase {
	return fieldCase{spec: limit(certificate), ask: ask, with: "Deny; p " + violation}
}

// permits is a field of a Limit whose absence refuses what it permits.
func permits(certificate string, ask func(*asked), violation string) fieldCase {
	return fieldCase{spec: limit(certificate), ask: ask, with: "Approve", without: "Deny; p " + violation}
}

func subjectFields() map[string][]fieldCase {
	subject := func(pairs ...string) func(*asked) { return func(a *asked) { a.subject = rdn(pairs...) } }
	all := map[string][]fieldCase{
		"certificate.subject.empty": {refuses(`{subject: {empty: true}}`, subject("CN", "x"), "certificate.subject.empty SubjectNotPermitted subject=x")},
		"certificate.subject.commonName.inNames": {
			refuses(`{subject: {commonName: {inNames: true}}}`, subject("CN", "other"), "certificate.subject.commonName.inNames SubjectNotPermitted subject.commonName=other"),
		},
	}
	for path, attribute := range map[string]string{"commonName": "CN", "serialNumber": "serialNumber"} {
		at := "certificate.subject." + path
		refused := fmt.Sprintf("%s SubjectNotPermitted subject.%s=bad", at, path)
		all[at+".patterns"] = []fieldCase{refuses(`{subject: {`+path+`: {patterns: ["good*"]}}}`, subject(attribute, "bad"), refused)}
		all[at+".matches"] = []fieldCase{refuses(`{subject: {`+path+`: {matches: ["g.*"]}}}`, subject(attribute, "bad"), refused)}
		all[at+".expression"] = []fieldCase{refuses(`{subject: {`+path+`: {expression: "['good']"}}}`, subject(attribute, "bad"),
			fmt.Sprintf("%s.expression SubjectNotPermitted subject.%s=bad", at, path))}
		missing := refuses(`{subject: {`+path+`: {required: true}}}`, nil, fmt.Sprintf("%s.required AttributeRequired subject.%s", at, path))
		missing.ordinary = missing.with
		all[at+".required"] = []fieldCase{missing}
	}
	for path, attribute := range map[string]string{
		"organizations": "O", "organizationalUnits": "OU", "countries": "C", "localities": "L", "provinces": "ST", "streetAddresses": "street", "postalCodes": "postalCode",
	} {
		at := "certificate.subject." + path
		refused := fmt.Sprintf("%s SubjectNotPermitted subject.%s[1]=bad", at, path)
		ask := subject(attribute, "good", attribute, "bad")
		all[at+".patterns"] = []fieldCase{refuses(`{subject: {`+path+`: {patterns: ["good*"]}}}`, ask, refused)}
		all[at+".matches"] = []fieldCase{refuses(`{subject: {`+path+`: {matches: ["g.*"]}}}`, ask, refused)}
		all[at+".expression"] = []fieldCase{refuses(`{subject: {`+path+`: {expression: "['good']"}}}`, ask,
			fmt.Sprintf("%s.expression SubjectNotPermitted subject.%s[1]=bad", at, path))}
		missing := refuses(`{subject: {`+path+`: {required: true}}}`, nil, fmt.Sprintf("%s.required AttributeRequired subject.%s", at, path))
		missing.ordinary = missing.with
		all[at+".required"] = []fieldCase{missing}
		exactly := refuses(`{subject: {`+path+`: {exactly: [good]}}}`, ask, fmt.Sprintf("%s.exactly SubjectNotPermitted subject.%s=good,bad", at, path))
		exactly.ordinary = fmt.Sprintf("Deny; p %s.exactly SubjectNotPermitted subject.%s", at, path)
		nothing := refuses(`{subject: {`+path+`: {exactly: []}}}`, subject(attribute, "bad"), fmt.Sprintf("%s.exactly SubjectNotPermitted subject.%s=bad", at, path))
		nothing.reason = "none"
		all[at+".exactly"] = []fieldCase{exactly, nothing}
		all[at+".max"] = []fieldCase{refuses(`{subject: {`+path+`: {max: 1}}}`, ask, fmt.Sprintf("%s.max SubjectNotPermitted subject.%s", at, path))}
	}
	oidFields(all, "certificate.subject.other", "subject: {other: [{oid: 1.2.840.113549.1.9.1, %s}]}", "subject.other[1.2.840.113549.1.9.1]",
		"SubjectNotPermitted", "AttributeRequired", "SubjectNotPermitted", func(values ...string) func(*asked) {
			return func(a *asked) {
				for _, value := range values {
					a.subject = append(a.subject, rdn("emailAddress", value)...)
				}
			}
		}, "0.9.2342.19200300.100.1.1")
	return all
}

// oidFields adds the cases of conditions by object identifier.
func oidFields(all map[string][]fieldCase, path, spec, field, refused, absent, tooMany string, values func(...string) func(*asked), otherOID string) {
	at := "certificate." + field
	if field == "otherNames["+oidUPN.String()+"]" {
		at = "certificate.names.other[" + oidUPN.String() + "]"
	}
	with := func(text string) string { return "{" + fmt.Sprintf(spec, text) + "}" }
	all[path+"[].patterns"] = []fieldCase{refuses(with(`patterns: ["good*"]`), values("good", "bad"), fmt.Sprintf("%s %s %s[1]=bad", at, refused, field))}
	all[path+"[].matches"] = []fieldCase{refuses(with(`matches: ["g.*"]`), values("good", "bad"), fmt.Sprintf("%s %s %s[1]=bad", at, refused, field))}
	all[path+"[].max"] = []fieldCase{refuses(with(`max: 1`), values("good", "bad"), fmt.Sprintf("%s.max %s %s", at, tooMany, field))}
	missing := refuses(with(`required: true`), nil, fmt.Sprintf("%s.required %s %s", at, absent, field))
	missing.ordinary = missing.with
	all[path+"[].required"] = []fieldCase{missing}
	oid := refuses(with(`patterns: ["good*"]`), values("bad"), fmt.Sprintf("%s %s %s[0]=bad", at, refused, field))
	oid.instead = otherOID
	if path == "certificate.names.other" { // a Limit that mentions one identifier refuses others
		oid.without = "Deny; p certificate.names.other NameNotPermitted otherNames[0]=1.3.6.1.4.1.311.20.2.3=bad"
	}
	all[path+"[].oid"] = []fieldCase{oid}
}

func dnsFields() map[string][]fieldCase {
	dns := func(names ...string) func(*asked) { return func(a *asked) { a.dns = append(a.dns, names...) } }
	const at = "certificate.names.dns"
	refused := at + " NameNotPermitted dnsNames[1]=www.example.org"
	wildcard := permits(`{names: {dns: {zones: [shop.example.com], wildcards: true}}}`, dns("*.shop.example.com"),
		at+".wildcards NameNotPermitted dnsNames[1]=*.shop.example.com")
	missing := refuses(`{names: {dns: {required: true}}}`, func(a *asked) { a.dns, a.ips = nil, []string{"10.0.0.1"} }, at+".required NameRequired dnsNames")
	return map[string][]fieldCase{
		at + ".zones":             {refuses(`{names: {dns: {zones: [shop.example.com]}}}`, dns("www.example.org"), refused)},
		at + ".patterns":          {refuses(`{names: {dns: {patterns: ["*.shop.example.com"]}}}`, dns("www.example.org"), refused)},
		at + ".matches":           {refuses(`{names: {dns: {matches: ['[a-z]+\.shop\.example\.com']}}}`, dns("www.example.org"), refused)},
		at + ".expression":        {refuses(`{names: {dns: {expression: "['www.shop.example.com']"}}}`, dns("www.example.org"), at+".expression NameNotPermitted dnsNames[1]=www.example.org")},
		at + ".excluded.zones":    {refuses(`{names: {dns: {excluded: {zones: [example.org]}}}}`, dns("www.example.org"), at+".excluded NameNotPermitted dnsNames[1]=www.example.org")},
		at + ".excluded.patterns": {refuses(`{names: {dns: {excluded: {patterns: ["www.*.org"]}}}}`, dns("www.example.org"), at+".excluded NameNotPermitted dnsNames[1]=www.example.org")},
		at + ".wildcards":         {wildcard},
		at + ".required":          {missing},
		at + ".max":               {refuses(`{names: {dns: {max: 1}}}`, dns("www.example.org"), at+".max TooManyNames dnsNames")},
	}
}

func nameFields() map[string][]fieldCase {
	ips := func(list ...string) func(*asked) { return func(a *asked) { a.ips = list } }
	uris := func(list ...string) func(*asked) { return func(a *asked) { a.uris = list } }
	mail := func(list ...string) func(*asked) { return func(a *asked) { a.mail = list } }
	required := func(kind, field string) fieldCase {
		tc := refuses(`{names: {`+kind+`: {required: true}}}`, nil, "certificate.names."+kind+".required NameRequired "+field)
		tc.ordinary = tc.with
		return tc
	}
	const ip, uri, email = "certificate.names.ip", "certificate.names.uri", "certificate.names.email"
	const refusedIP, refusedURI, refusedMail = " NameNotPermitted ipAddresses[1]=192.0.2.1", " NameNotPermitted uris[1]=https://example.org/a", " NameNotPermitted emailAddresses[1]=ann@example.org"
	bothIPs, bothURIs, bothMails := ips("10.0.0.1", "192.0.2.1"), uris("https://example.com/a", "https://example.org/a"), mail("ann@example.com", "ann@example.org")
	all := map[string][]fieldCase{
		"certificate.names.required": {refuses(`{names: {required: true}}`, func(a *asked) { a.dns = nil }, "certificate.names.required NameRequired names")},
		"certificate.names.max":      {refuses(`{names: {max: 2}}`, bothIPs, "certificate.names.max TooManyNames names=3")},
		ip + ".cidrs":                {refuses(`{names: {ip: {cidrs: [10.0.0.0/8]}}}`, bothIPs, ip+refusedIP)},
		ip + ".expression":           {refuses(`{names: {ip: {expression: "['10.0.0.1']"}}}`, bothIPs, ip+".expression"+refusedIP)},
		ip + ".excluded.cidrs":       {refuses(`{names: {ip: {excluded: {cidrs: [192.0.2.0/24]}}}}`, bothIPs, ip+".excluded"+refusedIP)},
		ip + ".required":             {required("ip", "ipAddresses")},
		ip + ".max":                  {refuses(`{names: {ip: {max: 1}}}`, bothIPs, ip+".max TooManyNames ipAddresses")},
		uri + ".patterns":            {refuses(`{names: {uri: {patterns: ["https://example.com/*"]}}}`, bothURIs, uri+refusedURI)},
		uri + ".matches":             {refuses(`{names: {uri: {matches: ['https://example\.com/.*']}}}`, bothURIs, uri+refusedURI)},
		uri + ".expression":          {refuses(`{names: {uri: {expression: "['https://example.com/a']"}}}`, bothURIs, uri+".expression"+refusedURI)},
		uri + ".required":            {required("uri", "uris")},
		uri + ".max":                 {refuses(`{names: {uri: {max: 1}}}`, bothURIs, uri+".max TooManyNames uris")},
		email + ".domains":           {refuses(`{names: {email: {domains: [example.com]}}}`, bothMails, email+refusedMail)},
		email + ".patterns":          {refuses(`{names: {email: {patterns: ["*@example.com"]}}}`, bothMails, email+refusedMail)},
		email + ".matches":           {refuses(`{names: {email: {matches: ['.*@example\.com']}}}`, bothMails, email+refusedMail)},
		email + ".expression":        {refuses(`{names: {email: {expression: "['ann@example.com']"}}}`, bothMails, email+".expression"+refusedMail)},
		email + ".required":          {required("email", "emailAddresses")},
		email + ".max":               {refuses(`{names: {email: {max: 1}}}`, bothMails, email+".max TooManyNames emailAddresses")},
	}
	oidFields(all, "certificate.names.other", "names: {other: [{oid: 1.3.6.1.4.1.311.20.2.3, %s}]}", "otherNames[1.3.6.1.4.1.311.20.2.3]",
		"NameNotPermitted", "NameRequired", "TooManyNames", func(values ...string) func(*asked) {
			return func(a *asked) {
				for _, value := range values {
					a.others = append(a.others, pki.OtherName{Type: oidUPN, Value: value})
				}
			}
		}, "1.2.3")
	return all
}

func termFields() map[string][]fieldCase {
	usages := func(list ...string) func(*asked) { return func(a *asked) { a.usages = append(a.usages, list...) } }
	lasting := func(d time.Duration) func(*asked) { return func(a *asked) { a.duration = d } }
	key := func(t pki.KeyType) func(*asked) { return func(a *asked) { a.key = t } }
	required := refuses(`{usages: {required: [client auth]}}`, nil, "certificate.usages.required UsageRequired usages")
	required.ordinary = required.with
	types := refuses(`{keys: {types: [ECDSAP256]}}`, key(pki.Ed25519), "certificate.keys UnsupportedKeyType key=Ed25519")
	types.instead = []any{"ECDSAP256", "ED25519"}
	shorten := permits(`{lifetime: {max: 48h, exceeding: Shorten}}`, lasting(72*time.Hour), "certificate.lifetime.max LifetimeTooLong duration=3d")
	return map[string][]fieldCase{
		"certificate.keys.types":       {types},
		"certificate.keys.reuse":       reuseFields(),
		"certificate.keys.rsa.minBits": {refuses(`{keys: {types: [ECDSAP256], rsa: {minBits: 3072, maxBits: 8192}}}`, key(pki.RSA2048), "certificate.keys UnsupportedKeyType key=RSA 2048")},
		"certificate.keys.rsa.maxBits": {refuses(`{keys: {types: [ECDSAP256], rsa: {minBits: 1024, maxBits: 1536}}}`, key(pki.RSA2048), "certificate.keys UnsupportedKeyType key=RSA 2048")},
		"certificate.usages.allowed":   {refuses(`{usages: {allowed: [digital signature, server auth]}}`, usages("client auth"), "certificate.usages.allowed UsageNotPermitted usages[2]=client auth")},
		"certificate.usages.required":  {required},
		"certificate.lifetime.min":     {refuses(`{lifetime: {min: 24h}}`, lasting(23*time.Hour), "certificate.lifetime.min LifetimeTooShort duration=23h")},
		"certificate.lifetime.max":     {refuses(`{lifetime: {max: 24h}}`, lasting(25*time.Hour), "certificate.lifetime.max LifetimeTooLong duration=1d1h")},
		// What default does shows in Set.Lifetime.
		"certificate.lifetime.default":   {{reason: "see TestLifetime", spec: limit(`{lifetime: {default: 12h}}`), with: "Approve"}},
		"certificate.lifetime.exceeding": {shorten},
		"certificate.extensions.allowed": {
			permits(`{extensions: {allowed: [1.2.3]}}`, func(a *asked) { a.extensions = []pkix.Extension{{Id: oidStrange, Value: []byte{5, 0}}} },
				"certificate.extensions.allowed ExtensionNotPermitted extensions[0]=1.2.3"),
		},
	}
}

func authorityFields() map[string][]fieldCase {
	authority := func(c *pki.NameConstraints, pathLength int) func(*asked) {
		return func(a *asked) { a.ca, a.constraints = &pki.BasicConstraints{IsCA: true, MaxPathLen: pathLength}, c }
	}
	network := ipNet("10.0.0.0/8")
	all := &pki.NameConstraints{Critical: true, Permitted: pki.NameTrees{
		DNSDomains: []string{"example.com"}, IPRanges: network, EmailAddresses: []string{"example.com"}, URIDomains: []string{"example.com"},
	}}
	const at = "certificate.authority"
	unconstrained := func(kind string) fieldCase {
		fewer := *all
		switch kind {
		case "dns":
			fewer.Permitted.DNSDomains = nil
		case "ip":
			fewer.Permitted.IPRanges = nil
		case "uri":
			fewer.Permitted.URIDomains = nil
		case "email":
			fewer.Permitted.EmailAddresses = nil
		}
		return refuses(`{authority: {allowed: true, permitted: {dns: [example.com], ip: [10.0.0.0/8], uri: [example.com], email: [example.com]}}}`,
			authority(&fewer, 0), at+".permitted."+kind+" CertificateAuthorityNotPermitted nameConstraints.permitted."+kind)
	}
	return map[string][]fieldCase{
		at + ".allowed":         {permits(`{authority: {allowed: true}}`, authority(all, 0), at+".allowed CertificateAuthorityNotPermitted isCA=true")},
		at + ".maxPathLength":   {refuses(`{authority: {allowed: true, maxPathLength: 0}}`, authority(all, 1), at+".maxPathLength CertificateAuthorityNotPermitted maxPathLength=1")},
		at + ".nameConstraints": {refuses(`{authority: {allowed: true, nameConstraints: Required}}`, authority(nil, 0), at+".nameConstraints CertificateAuthorityNotPermitted nameConstraints")},
		at + ".permitted.dns":   {unconstrained("dns")},
		at + ".permitted.ip":    {unconstrained("ip")},
		at + ".permitted.uri":   {unconstrained("uri")},
		at + ".permitted.email": {unconstrained("email")},
	}
}
