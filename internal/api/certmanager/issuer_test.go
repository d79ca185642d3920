//lint:file-ignore SA1019 who still sets what is deprecated is to be told

package certmanager_test

import (
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/certmanager"
)

const bundle = "Y2VydGlmaWNhdGU=" // not a certificate

func TestIssuers(t *testing.T) {
	const account = `acme: {server: "https://acme.example.com", privateKeySecretRef: {name: account}, `
	const vault = `vault: {server: "https://vault", path: "pki/sign/web", auth: {tokenSecretRef: {name: t}}, `
	auth := func(text string) string { return `vault: {server: s, path: p, auth: {` + text + `}}` }
	solver := func(text string) string { return account + `solvers: [` + text + `]}` }
	dns := func(text string) string { return solver(`{dns01: {` + text + `}}`) }
	tests := []struct{ reason, spec, want string }{
		{"no type", `{}`, "spec: Required value: at least one issuer must be configured"},
		{"two types", `{selfSigned: {}, ca: {secretName: x}}`, "spec.selfSigned: Forbidden: may not specify more than one issuer type"},

		{"a CA", `ca: {secretName: x, ocspServers: [http://a]}`, ""},
		{"a CA without a Secret", `ca: {}`, "spec.ca.secretName: Required"},
		{"an empty OCSP server", `ca: {secretName: x, ocspServers: [http://a, ""]}`, "spec.ca.ocspServers[1]: Required"},
		{"an empty URL", `ca: {secretName: x, issuingCertificateURLs: [""]}`, "spec.ca.issuingCertificateURLs[0]: Required"},
		{"self-signed", `selfSigned: {}`, ""},
		{"an empty list of the revoked", `selfSigned: {crlDistributionPoints: [""]}`, "spec.selfSigned.crlDistributionPoints[0]: Required"},

		{"ACME", account + `}`, ""},
		{"ACME without a server", `acme: {privateKeySecretRef: {name: account}}`, "spec.acme.server: Required"},
		{"ACME without an account", `acme: {server: x}`, "spec.acme.privateKeySecretRef.name: Required"},
		{"a bundle without a certificate", account + `caBundle: ` + bundle + `}`, "spec.acme.caBundle: Invalid"},
		{"a bundle that is not looked at", account + `caBundle: ` + bundle + `, skipTLSVerify: true}`, "spec.acme.skipTLSVerify: Invalid"},
		{"a binding", account + `externalAccountBinding: {keyID: k, keySecretRef: {name: s, key: k}}}`, ""},
		{"a binding without an ID", account + `externalAccountBinding: {keySecretRef: {name: s, key: k}}}`, "spec.acme.externalAccountBinding.keyID: Required"},
		{"a binding without a key", account + `externalAccountBinding: {keyID: k, keySecretRef: {name: s}}}`, "spec.acme.externalAccountBinding.keySecretRef.key: Required"},
		{"no solver", solver(`{}`), "spec.acme.solvers[0]: Required"},
		{"two solvers in one", solver(`{http01: {ingress: {}}, dns01: {webhook: {}}}`), "spec.acme.solvers[0]: Forbidden: may not specify more than one solver type in a single solver"},
		{"no way over HTTP", solver(`{http01: {}}`), "spec.acme.solvers[0].http01: Required"},
		{"two ways over HTTP", solver(`{http01: {ingress: {}, gatewayHTTPRoute: {}}}`), "spec.acme.solvers[0].http01: Required value: only 1 HTTP01 solver type may be configured"},
		{"an Ingress", solver(`{http01: {ingress: {ingressClassName: nginx, serviceType: ClusterIP}}}`), ""},
		{"two ways to an Ingress", solver(`{http01: {ingress: {ingressClassName: nginx, name: web}}}`), "spec.acme.solvers[0].http01.ingress: Forbidden: only one of 'ingressClassName', 'name' or 'class' should be specified"},
		{"no class", solver(`{http01: {ingress: {ingressClassName: a/b}}}`), "ingressClassName: Invalid"},
		{"the older class is free", solver(`{http01: {ingress: {class: a/b}}}`), ""},
		{"no type of service", solver(`{http01: {ingress: {serviceType: LoadBalancer}}}`), `serviceType: Invalid value: "LoadBalancer": must be empty, "ClusterIP" or "NodePort"`},
		{"a gateway", solver(`{http01: {gatewayHTTPRoute: {parentRefs: [{name: g, kind: Gateway}]}}}`), ""},
		{"a gateway without a kind", solver(`{http01: {gatewayHTTPRoute: {parentRefs: [{name: g}]}}}`), "parentRefs[0].kind: Required"},
		{"a gateway without a name", solver(`{http01: {gatewayHTTPRoute: {parentRefs: [{kind: Gateway}]}}}`), "parentRefs[0].name: Required"},
		{"no provider", solver(`{dns01: {}}`), "spec.acme.solvers[0].dns01: Required"},
		{"a provider", solver(`{dns01: {rfc2136: {nameserver: a}}}`), ""},
		{"two providers", solver(`{dns01: {rfc2136: {nameserver: a}, route53: {}}}`), "spec.acme.solvers[0].dns01.rfc2136: Forbidden: may not specify more than one provider type"},
		{"a wait in the past", solver(`{http01: {ingress: {}}, waitInsteadOfSelfCheck: -1s}`), "waitInsteadOfSelfCheck: Invalid"},

		{"Akamai", dns(`akamai: {serviceConsumerDomain: d, clientTokenSecretRef: {name: s, key: k}, clientSecretSecretRef: {name: s, key: k}, accessTokenSecretRef: {name: s, key: k}}`), ""},
		{"Akamai without a domain", dns(`akamai: {clientTokenSecretRef: {name: s, key: k}, clientSecretSecretRef: {name: s, key: k}, accessTokenSecretRef: {name: s, key: k}}`), "dns01.akamai.serviceConsumerDomain: Required value"},
		{"Akamai without a Secret", dns(`akamai: {serviceConsumerDomain: d, clientTokenSecretRef: {name: s, key: k}, clientSecretSecretRef: {name: s, key: k}}`), "dns01.akamai.accessToken.name: Required value: secret name is required"},
		{"Akamai without a key", dns(`akamai: {serviceConsumerDomain: d, clientTokenSecretRef: {name: s}, clientSecretSecretRef: {name: s, key: k}, accessTokenSecretRef: {name: s, key: k}}`), "dns01.akamai.clientToken.key: Required value: secret key is required"},
		{"Azure with what the process has", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g}`), ""},
		{"Azure without a group", dns(`azureDNS: {subscriptionID: s}`), "dns01.azureDNS.resourceGroupName: Required value"},
		{"Azure without a subscription", dns(`azureDNS: {resourceGroupName: g}`), "dns01.azureDNS.subscriptionID: Required value"},
		{"half of a service principal", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, clientID: c}`), "dns01.azureDNS.clientSecretSecretRef: Required value"},
		{"a service principal without a tenant", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, clientID: c, clientSecretSecretRef: {name: s, key: k}}`), "dns01.azureDNS.tenantID: Required value"},
		{"a tenant without a client", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, tenantID: t}`), "dns01.azureDNS.clientID: Required value"},
		{"two identities", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, clientID: c, tenantID: t, clientSecretSecretRef: {name: s, key: k}, managedIdentity: {clientID: c}}`), "dns01.azureDNS.managedIdentity: Forbidden: managed identity cannot be used at the same time as clientID, clientSecretSecretRef or tenantID"},
		{"a managed identity with two names", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, managedIdentity: {clientID: c, resourceID: r}}`), "dns01.azureDNS.managedIdentity: Forbidden: managedIdentityClientID and managedIdentityResourceID cannot both be specified"},
		{"a managed resource with a tenant", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, managedIdentity: {tenantID: t, resourceID: r}}`), "dns01.azureDNS.managedIdentity: Forbidden: managedIdentityTenantID and managedIdentityResourceID cannot both be specified"},
		{"a tenant alone", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, managedIdentity: {tenantID: t}}`), "dns01.azureDNS.managedIdentity: Required value: managedIdentityClientID is required when using managedIdentityTenantID"},
		{"an unknown Azure", dns(`azureDNS: {subscriptionID: s, resourceGroupName: g, environment: Moon}`), `dns01.azureDNS.environment: Invalid value: "Moon": must be either empty or one of AzurePublicCloud, AzureChinaCloud, AzureGermanCloud, or AzureUSGovernmentCloud`},
		{"Cloud DNS", dns(`cloudDNS: {project: p}`), ""},
		{"Cloud DNS without a project", dns(`cloudDNS: {}`), "dns01.cloudDNS.project: Required value"},
		{"Cloud DNS with half a Secret", dns(`cloudDNS: {project: p, serviceAccountSecretRef: {name: s}}`), "dns01.cloudDNS.serviceAccountSecretRef.key: Required value: secret key is required"},
		{"Cloudflare", dns(`cloudflare: {apiTokenSecretRef: {name: s, key: k}}`), ""},
		{"Cloudflare with both", dns(`cloudflare: {email: e, apiTokenSecretRef: {name: s, key: k}, apiKeySecretRef: {name: s, key: k}}`), "dns01.cloudflare: Forbidden: apiKeySecretRef and apiTokenSecretRef cannot both be specified"},
		{"Cloudflare with neither", dns(`cloudflare: {}`), "dns01.cloudflare: Required value: apiKeySecretRef or apiTokenSecretRef is required"},
		{"Cloudflare without an address", dns(`cloudflare: {apiKeySecretRef: {name: s, key: k}}`), "dns01.cloudflare.email: Required value"},
		{"Route 53 with what the process has", dns(`route53: {}`), ""},
		{"Route 53 with two key IDs", dns(`route53: {accessKeyID: a, accessKeyIDSecretRef: {name: s, key: k}}`), "dns01.route53: Required value: accessKeyID and accessKeyIDSecretRef cannot both be specified"},
		{"Route 53 with half a Secret", dns(`route53: {accessKeyIDSecretRef: {key: k}}`), "dns01.route53.accessKeyIDSecretRef.name: Required value: secret name is required"},
		{"acme-dns", dns(`acmeDNS: {host: h, accountSecretRef: {name: s, key: k}}`), ""},
		{"acme-dns without a host", dns(`acmeDNS: {accountSecretRef: {name: s, key: k}}`), "dns01.acmeDNS.host: Required value"},
		{"acme-dns after another provider", dns(`cloudDNS: {project: p}, acmeDNS: {host: h, accountSecretRef: {name: s, key: k}}`), ""},
		{"a provider after acme-dns", dns(`acmeDNS: {host: h, accountSecretRef: {name: s, key: k}}, webhook: {solverName: s}`), "dns01.webhook: Forbidden: may not specify more than one provider type"},
		{"DigitalOcean without a key", dns(`digitalocean: {tokenSecretRef: {name: s}}`), "dns01.digitalocean.tokenSecretRef.key: Required value: secret key is required"},
		{"RFC 2136 nowhere", dns(`rfc2136: {}`), "dns01.rfc2136.nameserver: Required value"},
		{"RFC 2136 at a port", dns(`rfc2136: {nameserver: ":53"}`), `dns01.rfc2136.nameserver: Invalid value: ":53": nameserver must be set in the form host:port where host is an IPv4 address, an enclosed IPv6 address or a hostname and port is an optional port number.`},
		{"RFC 2136 over IPv6", dns(`rfc2136: {nameserver: "[2001:db8::1]"}`), ""},
		{"an algorithm in lower case", dns(`rfc2136: {nameserver: a, tsigAlgorithm: hmacsha512}`), ""},
		{"an unknown algorithm", dns(`rfc2136: {nameserver: a, tsigAlgorithm: none}`), `dns01.rfc2136.tsigAlgorithm: Unsupported value: "": supported values: "HMACMD5", "HMACSHA1", "HMACSHA256", "HMACSHA512"`},
		{"a key without a Secret", dns(`rfc2136: {nameserver: a, tsigKeyName: k}`), "dns01.rfc2136.tsigSecretSecretRef.name: Required value: secret name is required"},
		{"a Secret without the key's name", dns(`rfc2136: {nameserver: a, tsigSecretSecretRef: {name: s, key: k}}`), "dns01.rfc2136.tsigKeyName: Required value"},
		{"a webhook without a group", dns(`webhook: {solverName: s}`), ""},
		{"a webhook without a solver", dns(`webhook: {groupName: g}`), "dns01.webhook.solverName: Required value: solver name must be specified"},
		{"deSEC", dns(`webhook: {groupName: dns.certplane.dev, solverName: desec, config: {tokenSecretRef: {name: s, key: k}}}`), ""},
		{"deSEC without a config", dns(`webhook: {groupName: dns.certplane.dev, solverName: desec}`), "dns01.webhook.config.tokenSecretRef.name: Required value: secret name is required"},
		{"deSEC without a key", dns(`webhook: {groupName: dns.certplane.dev, solverName: desec, config: {tokenSecretRef: {name: s}}}`), "dns01.webhook.config.tokenSecretRef.key: Required value: secret key is required"},
		{"deSEC with its token", dns(`webhook: {groupName: dns.certplane.dev, solverName: desec, config: {token: s3cr3t, tokenSecretRef: {name: s, key: k}}}`), `dns01.webhook.config: Invalid value: unknown field "token"`},
		{"deSEC with a text", dns(`webhook: {groupName: dns.certplane.dev, solverName: desec, config: {tokenSecretRef: s3cr3t}}`), `dns01.webhook.config: Invalid value: json: cannot unmarshal string into Go struct field DeSEC.tokenSecretRef of type v1.SecretKeySelector`},
		{"an unknown provider of ours", dns(`webhook: {groupName: dns.certplane.dev, solverName: desek}`), `dns01.webhook.solverName: Unsupported value: "desek": supported values: "desec"`},
		{"an unknown strategy", dns(`cnameStrategy: Maybe, cloudDNS: {project: p}`), `dns01.cnameStrategy: Invalid value: "Maybe": must be one of "None" or "Follow"`},

		{"Vault", vault + `}`, ""},
		{"Vault nowhere", `vault: {path: p, auth: {tokenSecretRef: {name: t}}}`, "spec.vault.server: Required"},
		{"Vault without a path", `vault: {server: s, auth: {tokenSecretRef: {name: t}}}`, "spec.vault.path: Required"},
		{"a path upwards", `vault: {server: s, path: pki/../sys, auth: {tokenSecretRef: {name: t}}}`, "spec.vault.path: Invalid"},
		{"dots in a name", `vault: {server: s, path: pki..x/sign, auth: {tokenSecretRef: {name: t}}}`, ""},
		{"a bundle in a Secret", vault + `caBundleSecretRef: {name: x}}`, ""},
		{"half of a client certificate", vault + `clientCertSecretRef: {name: x}}`, `spec.vault.clientKeySecretRef: Invalid value: "<snip>": clientKeySecretRef must be provided when defining the clientCertSecretRef`},
		{"the other half", vault + `clientKeySecretRef: {name: x}}`, `spec.vault.clientCertSecretRef: Invalid value: "<snip>": clientCertSecretRef must be provided when defining the clientKeySecretRef`},
		{"no way to log in", auth(``), "spec.vault.auth: Required"},
		{"several ways to log in", auth(`tokenSecretRef: {name: t}, clientCertificate: {}`), ""},
		{"a role", auth(`appRole: {path: approle, roleId: r, secretRef: {name: s}}`), ""},
		{"a role without an ID", auth(`appRole: {path: approle, secretRef: {name: s}}`), "appRole.roleId: Required"},
		{"a role without a secret", auth(`appRole: {path: approle, roleId: r}`), "appRole.secretRef.name: Required"},
		{"a role upwards", auth(`appRole: {path: ../x, roleId: r, secretRef: {name: s}}`), "appRole.path: Invalid"},
		{"a service account", auth(`kubernetes: {role: r, serviceAccountRef: {name: s}}`), ""},
		{"a service account without a role", auth(`kubernetes: {serviceAccountRef: {name: s}}`), "kubernetes.role: Required"},
		{"a role of nobody", auth(`kubernetes: {role: r}`), "kubernetes: Required"},
		{"two accounts", auth(`kubernetes: {role: r, secretRef: {name: x}, serviceAccountRef: {name: s}}`), "spec.vault.auth.kubernetes: Forbidden: please supply one of: secretRef, serviceAccountRef"},
		{"AWS", auth(`aws: {role: r}`), ""},
		{"AWS without a role", auth(`aws: {}`), "aws.role: Required"},
		{"AWS with half an identity", auth(`aws: {role: r, serviceAccountRef: {name: s}}`), "aws.iamRoleArn: Required"},

		{"TPP", `venafi: {zone: z, tpp: {url: u, credentialsRef: {name: c}}}`, ""},
		{"no zone", `venafi: {tpp: {url: u}}`, "spec.venafi.zone: Required"},
		{"no product", `venafi: {zone: z}`, "spec.venafi: Required"},
		{"two products", `venafi: {zone: z, tpp: {url: u}, cloud: {apiTokenSecretRef: {name: x}}}`, "spec.venafi: Forbidden: please supply one of: tpp, cloud, ngts"},
		{"NGTS without an ID", `venafi: {zone: z, ngts: {credentialsRef: {name: x}}}`, "spec.venafi.ngts.tsgID: Required"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			issuer := &cmv1.ClusterIssuer{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &issuer.Spec); err != nil {
				t.Fatal(err)
			}
			errs, _ := certmanager.ValidateIssuer(issuer)
			check(t, errs, tc.want)
			if errs, _ := certmanager.ValidateIssuerUpdate(issuer, issuer.DeepCopy()); len(errs) > 0 {
				t.Errorf("what is stored cannot be changed any more: %v", errs)
			}
		})
	}
}

// The error names both fields, without the content of the bundle.
func TestTwoBundles(t *testing.T) {
	issuer := &cmv1.Issuer{}
	text := `vault: {server: s, path: p, auth: {tokenSecretRef: {name: t}}, caBundle: ` + bundle + `, caBundleSecretRef: {name: x}}`
	if err := yaml.UnmarshalStrict([]byte(text), &issuer.Spec); err != nil {
		t.Fatal(err)
	}
	errs, _ := certmanager.ValidateIssuer(issuer)
	check(t, errs, "specified caBundle and caBundleSecretRef cannot be used together")
	check(t, errs, "specified caBundleSecretRef and caBundle cannot be used together")
}

func TestWarnings(t *testing.T) {
	issuer := &cmv1.Issuer{}
	issuer.Spec.ACME = &acmev1.ACMEIssuer{ExternalAccountBinding: &acmev1.ACMEExternalAccountBinding{KeyAlgorithm: acmev1.HS256}}
	if _, warnings := certmanager.ValidateIssuer(issuer); len(warnings) != 1 {
		t.Errorf("warnings: %q", warnings)
	}
	for server, want := range map[string]int{"http://vault:8200": 1, "HTTP://vault:8200": 1, "https://vault:8200": 0} {
		issuer := &cmv1.Issuer{}
		issuer.Spec.Vault = &cmv1.VaultIssuer{Server: server}
		if _, warnings := certmanager.ValidateIssuer(issuer); len(warnings) != want {
			t.Errorf("%s: warnings %q", server, warnings)
		}
	}
	issuer.Spec.ACME.ExternalAccountBinding.KeyAlgorithm = ""
	if _, warnings := certmanager.ValidateIssuer(issuer); len(warnings) != 0 {
		t.Errorf("warnings: %q", warnings)
	}
}

// Fields of an order that come from the CA do not change.
func TestOrdersAndChallenges(t *testing.T) {
	yes, no := true, false
	stored := func() *acmev1.Order {
		order := &acmev1.Order{}
		order.Spec.Request = []byte("request")
		order.Status = acmev1.OrderStatus{
			URL: "url", FinalizeURL: "finalize", Certificate: []byte("certificate"),
			Authorizations: []acmev1.ACMEAuthorization{{
				URL: "a", Identifier: "example.com", Wildcard: &yes, InitialState: acmev1.Pending,
				Challenges: []acmev1.ACMEChallenge{{URL: "c", Token: "t", Type: "http-01"}},
			}},
		}
		return order
	}
	tests := []struct {
		reason string
		edit   func(*acmev1.Order)
		path   string
	}{
		{"request", func(o *acmev1.Order) { o.Spec.Request = []byte("other") }, "spec.request"},
		{"url", func(o *acmev1.Order) { o.Status.URL = "" }, "status.url"},
		{"finalizeURL", func(o *acmev1.Order) { o.Status.FinalizeURL = "other" }, "status.finalizeURL"},
		{"certificate", func(o *acmev1.Order) { o.Status.Certificate = nil }, "status.certificate"},
		{"one more", func(o *acmev1.Order) {
			o.Status.Authorizations = append(o.Status.Authorizations, acmev1.ACMEAuthorization{})
		}, "status.authorizations"},
		{"all gone", func(o *acmev1.Order) { o.Status.Authorizations = nil }, "status.authorizations"},
		{"authorization", func(o *acmev1.Order) { o.Status.Authorizations[0].URL = "b" }, "status.authorizations[0].url"},
		{"identifier", func(o *acmev1.Order) { o.Status.Authorizations[0].Identifier = "b" }, "status.authorizations[0].identifier"},
		{"wildcard", func(o *acmev1.Order) { o.Status.Authorizations[0].Wildcard = &no }, "status.authorizations[0].wildcard"},
		{"state", func(o *acmev1.Order) { o.Status.Authorizations[0].InitialState = acmev1.Valid }, "status.authorizations[0].initialState"},
		{"challenges", func(o *acmev1.Order) { o.Status.Authorizations[0].Challenges = nil }, "status.authorizations[0].challenges"},
		{"challenge", func(o *acmev1.Order) { o.Status.Authorizations[0].Challenges[0].URL = "d" }, "status.authorizations[0].challenges[0].url"},
		{"token", func(o *acmev1.Order) { o.Status.Authorizations[0].Challenges[0].Token = "" }, "status.authorizations[0].challenges[0].token"},
		{"type", func(o *acmev1.Order) { o.Status.Authorizations[0].Challenges[0].Type = "dns-01" }, "status.authorizations[0].challenges[0].type"},
		{"what may change", func(o *acmev1.Order) { o.Status.State, o.Status.Reason, o.Spec.Profile = acmev1.Valid, "x", "short" }, ""},
	}
	for _, tc := range tests {
		order := stored()
		tc.edit(order)
		want := ""
		if tc.path != "" {
			want = tc.path + ": Forbidden: field is immutable once set"
		}
		check(t, certmanager.ValidateOrderUpdate(order, stored()), want)
	}
	check(t, certmanager.ValidateOrderUpdate(stored(), &acmev1.Order{}), "")

	challenge := &acmev1.Challenge{Spec: acmev1.ChallengeSpec{Token: "t", Solver: acmev1.ACMEChallengeSolver{WaitInsteadOfSelfCheck: lasts(time.Minute)}}}
	changed := challenge.DeepCopy()
	changed.Status.State = acmev1.Valid
	check(t, certmanager.ValidateChallengeUpdate(changed, challenge), "")
	changed.Spec.Solver.WaitInsteadOfSelfCheck = lasts(time.Hour)
	check(t, certmanager.ValidateChallengeUpdate(changed, challenge), "spec: Forbidden: challenge spec is immutable after creation")
}
