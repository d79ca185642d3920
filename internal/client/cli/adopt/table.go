package adopt

import (
	"strconv"
	"strings"
)

// row maps a setting of a program to one of certplane.
type row struct {
	// part is the part that has the setting; empty for the controller of cert-manager.
	part string
	// flag is the name of its flag; field the path of its field in a configuration file.
	flag, field string
	// to is the path of the field in certplane's configuration; as converts the value. If to
	// is empty, text says why it has none.
	to   string
	as   func(string) any
	text string
	// lost means that something is lost without the setting: the user must know of it.
	lost bool
}

func text(s string) any    { return s }
func boolean(s string) any { return s == "true" }
func number(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return s // the configuration refuses it and names the field
}

func list(s string) any {
	items := []any{}
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func labels(s string) any {
	all := map[string]any{}
	for pair := range strings.SplitSeq(s, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			all[key] = value
		}
	}
	return all
}

// prefixes adds the annotation that certplane never copies.
func prefixes(s string) any { return append(list(s).([]any), "-certplane.dev/shim") }

// Texts of settings without a counterpart.
const (
	ownPods   = "about the pods and connections of the other program"
	inPlan    = "part of the plan"
	alwaysOn  = "always on"
	noMeaning = "has no meaning here"
)

// settings maps all flags and fields, from pkg/apis/config of cert-manager v1.21 and the flags
// in its documentation, and from trust-manager v0.24.
var settings = []row{
	{flag: "cluster-resource-namespace", field: "clusterResourceNamespace", to: "certManager.clusterResourceNamespace", as: text},
	{flag: "max-concurrent-challenges", field: "maxConcurrentChallenges", to: "acme.maxConcurrentChallenges", as: number},
	{flag: "dns01-recursive-nameservers", field: "acmeDNS01Config.recursiveNameservers", to: "acme.dns01.recursiveNameservers", as: list},
	{flag: "dns01-recursive-nameservers-only", field: "acmeDNS01Config.recursiveNameserversOnly", to: "acme.dns01.recursiveNameserversOnly", as: boolean},
	{flag: "dns01-check-retry-period", field: "acmeDNS01Config.checkRetryPeriod", to: "acme.checkPeriod", as: text},
	{flag: "acme-http01-solver-image", field: "acmeHTTP01Config.solverImage", text: "certplane runs its own image as solver"},
	{flag: "acme-http01-solver-resource-request-cpu", field: "acmeHTTP01Config.solverResourceRequestCPU", to: "acme.http01.cluster.resources.requests.cpu", as: text},
	{flag: "acme-http01-solver-resource-request-memory", field: "acmeHTTP01Config.solverResourceRequestMemory", to: "acme.http01.cluster.resources.requests.memory", as: text},
	{flag: "acme-http01-solver-resource-limits-cpu", field: "acmeHTTP01Config.solverResourceLimitsCPU", to: "acme.http01.cluster.resources.limits.cpu", as: text},
	{flag: "acme-http01-solver-resource-limits-memory", field: "acmeHTTP01Config.solverResourceLimitsMemory", to: "acme.http01.cluster.resources.limits.memory", as: text},
	{flag: "acme-http01-solver-run-as-non-root", field: "acmeHTTP01Config.solverRunAsNonRoot", to: "acme.http01.cluster.runAsNonRoot", as: boolean},
	{flag: "acme-http01-solver-runtime-class-name", field: "acmeHTTP01Config.solverRuntimeClassName", to: "acme.http01.cluster.runtimeClassName", as: text},
	{flag: "acme-http01-solver-extra-labels", field: "acmeHTTP01Config.solverExtraLabels", to: "acme.http01.cluster.extraLabels", as: labels},
	{flag: "acme-http01-solver-nameservers", field: "acmeHTTP01Config.solverNameservers", to: "acme.http01.nameservers", as: list},
	{flag: "enable-certificate-owner-ref", field: "enableCertificateOwnerRef", to: "certManager.enableCertificateOwnerRef", as: boolean},
	{flag: "copied-annotation-prefixes", field: "copiedAnnotationPrefixes", to: "certManager.copiedAnnotationPrefixes", as: prefixes},
	{flag: "certificate-request-minimum-backoff-duration", field: "certificateRequestMinimumBackoffDuration", to: "certManager.backoffMin", as: text},
	{flag: "certificate-request-maximum-backoff-duration", field: "certificateRequestMaximumBackoffDuration", to: "certManager.backoffMax", as: text},
	{flag: "issuer-ambient-credentials", field: "issuerAmbientCredentials", to: "acme.dns01.issuerAmbientCredentials", as: boolean},
	{flag: "cluster-issuer-ambient-credentials", field: "clusterIssuerAmbientCredentials", to: "acme.dns01.clusterIssuerAmbientCredentials", as: boolean},
	{flag: "default-issuer-name", field: "ingressShimConfig.defaultIssuerName", to: "certManager.ingressShim.defaultIssuerName", as: text},
	{flag: "default-issuer-kind", field: "ingressShimConfig.defaultIssuerKind", to: "certManager.ingressShim.defaultIssuerKind", as: text},
	{flag: "default-issuer-group", field: "ingressShimConfig.defaultIssuerGroup", to: "certManager.ingressShim.defaultIssuerGroup", as: text},
	{flag: "auto-certificate-annotations", field: "ingressShimConfig.defaultAutoCertificateAnnotations", to: "certManager.ingressShim.autoAnnotations", as: list},
	{flag: "extra-certificate-annotations", field: "ingressShimConfig.extraCertificateAnnotations", to: "certManager.ingressShim.copiedAnnotations", as: list},
	{flag: "gateway-api-extra-protocols", field: "gatewayAPI.extraProtocols", to: "certManager.gatewayShim.extraProtocols", as: list},
	{flag: "enable-gateway-api", field: "enableGatewayAPI", to: gatewayAPI, as: boolean},
	{flag: "enable-gateway-api", field: "gatewayAPI.enabled", to: gatewayAPI, as: boolean},
	{flag: "enable-gateway-api-listenerset", field: "enableGatewayAPIListenerSet", to: listenerSets, as: boolean},
	{flag: "enable-gateway-api-listenerset", field: "gatewayAPI.enableListenerSet", to: listenerSets, as: boolean},
	{flag: "leader-election-namespace", field: "leaderElectionConfig.namespace", text: inPlan},
	{flag: "controllers", field: "controllers", text: inPlan},
	{flag: "namespace", field: "namespace", text: inPlan},
	{flag: "feature-gates", field: "featureGates", text: inPlan},
	{flag: "leader-elect", field: "leaderElectionConfig.enabled", text: inPlan},
	{flag: "max-certificate-size", field: "pemSizeLimitsConfig.maxCertificateSize", text: "certplane has fixed limits", lost: true},
	{flag: "max-private-key-size", field: "pemSizeLimitsConfig.maxPrivateKeySize", text: "certplane has fixed limits", lost: true},
	{flag: "max-chain-length", field: "pemSizeLimitsConfig.maxChainLength", text: "certplane has fixed limits", lost: true},
	{flag: "max-bundle-size", field: "pemSizeLimitsConfig.maxBundleSize", text: "certplane has fixed limits", lost: true},

	{part: "cainjector", flag: "namespace", field: "namespace", to: "caInjector.namespace", as: text},
	{part: "cainjector", flag: "ignore-namespaces", field: "ignoreNamespaces", to: "caInjector.ignoreNamespaces", as: list},
	{part: "cainjector", flag: "enable-certificates-data-source", field: "enableDataSourceConfig.certificates", to: "caInjector.certificates", as: boolean},
	{part: "cainjector", flag: "enable-validatingwebhookconfigurations-injectable", field: "enableInjectableConfig.validatingWebhookConfigurations", text: inPlan},
	{part: "cainjector", flag: "enable-mutatingwebhookconfigurations-injectable", field: "enableInjectableConfig.mutatingWebhookConfigurations", text: inPlan},
	{part: "cainjector", flag: "enable-customresourcedefinitions-injectable", field: "enableInjectableConfig.customResourceDefinitions", text: inPlan},
	{part: "cainjector", flag: "enable-apiservices-injectable", field: "enableInjectableConfig.apiServices", text: inPlan},
	{part: "cainjector", flag: "leader-election-namespace", field: "leaderElectionConfig.namespace", text: inPlan},
	{part: "cainjector", flag: "leader-elect", field: "leaderElectionConfig.enabled", text: inPlan},
	{part: "cainjector", flag: "feature-gates", field: "featureGates", text: noMeaning},

	{part: "webhook", flag: "client-ca-path", field: "clientCAPath", text: "mount the file, and set webhook.clientCAFile", lost: true},
	{part: "webhook", flag: "enable-client-verification", field: "enableClientVerification", text: "mount the file, and set webhook.clientCAFile", lost: true},
	{part: "webhook", flag: "client-certificate-subjects", field: "clientCertificateSubjects", to: "webhook.clientNames", as: list},
	{part: "webhook", flag: "feature-gates", field: "featureGates", text: noMeaning},
}

// Paths that more than one setting sets.
const (
	gatewayAPI   = "acme.http01.cluster.enableGatewayAPI"
	listenerSets = "certManager.gatewayShim.listenerSets"
)

// podSettings are the beginnings of names of flags and fields about a process itself.
var podSettings = []string{
	"config", "v", "vmodule", "log", "kube", "master", "apiServerHost", "api-server-host", "leader", "metrics", "health", "readiness", "profil", "pprof", "enable-profiling",
	"enablePprof", "concurrent-workers", "numberOfConcurrentWorkers", "secure-port", "securePort", "dynamic-serving", "tls", "webhook-", "kind", "apiVersion",
}

// gate is a feature gate.
type gate struct {
	text string
	// lost means that the part of the gate is not covered if it has this value.
	lost string
}

// gates are all feature gates of cert-manager.
var gates = map[string]gate{
	"AdditionalCertificateOutputFormats":               {alwaysOn, "false"},
	"LiteralCertificateSubject":                        {alwaysOn, "false"},
	"NameConstraints":                                  {alwaysOn, "false"},
	"OtherNames":                                       {alwaysOn, "false"},
	"StableCertificateRequestName":                     {alwaysOn, ""},
	"UseDomainQualifiedFinalizer":                      {alwaysOn, ""},
	"ServerSideApply":                                  {noMeaning, ""},
	"SecretsFilteredCaching":                           {noMeaning, ""},
	"CAInjectorMerging":                                {noMeaning, ""},
	"ValidateCAA":                                      {"certplane leaves CAA records to the CA", ""},
	"DisallowInsecureCSRUsageDefinition":               {alwaysOn, ""},
	"UseCertificateRequestBasicConstraints":            {"requests of CAs always have basic constraints, others have none", "true"},
	"ExperimentalCertificateSigningRequestControllers": {"the controller certificatesigningrequests", ""},
	"ExperimentalGatewayAPISupport":                    {"the controller gateway-shim", ""},
	"ListenerSets":                                     {listenerSets, ""},
	"ACMEHTTP01IngressPathTypeExact":                   {"acme.http01.cluster.pathTypeExact", ""},
	"ACMEUseARI":                                       {"certManager.renewalInformation", ""},
	"DefaultPrivateKeyRotationPolicyAlways":            {"see the topic Certificates", ""},
}

// chartValues says of values of the charts, by the longest beginning of their path, where they
// are in the plan. An empty text means that the chart turns them into settings above.
var chartValues = map[string]string{
	"replicaCount": "replicas of certplane's one Deployment", "webhook.replicaCount": "replicas of certplane's one Deployment", "cainjector.replicaCount": "replicas of certplane's one Deployment",
	"crds": "the definitions stay, see the topic Definitions", "installCRDs": "the definitions stay, see the topic Definitions",
	"global.leaderElection": "", "clusterResourceNamespace": "", "maxConcurrentChallenges": "", "dns01Recursive": "", "enableCertificateOwnerRef": "", "ingressShim": "", "config": "",
	"extraArgs": "", "featureGates": "", "webhook.extraArgs": "", "webhook.featureGates": "", "cainjector.extraArgs": "", "cainjector.featureGates": "", "webhook.config": "", "cainjector.config": "",
	"disableAutoApproval": inPlan, "approveSignerNames": inPlan, "cainjector.enabled": inPlan, "namespace": inPlan, "nameOverride": inPlan, "fullnameOverride": inPlan,
	"webhook.clientCAFile": "", "webhook.apiserverClientCertSubjects": "", "webhook.enableClientVerification": "",
	"webhook.url": none, "webhook.timeoutSeconds": "certplane's webhook has a timeout of 10 seconds", "webhook.networkPolicy": "set webhook.clientCIDRs", "webhook.securePort": "webhook.bindAddress, port 10250",
	"webhook.validatingWebhookConfiguration": "objects of all namespaces are validated", "webhook.mutatingWebhookConfiguration": "objects of all namespaces are validated",
	"webhook.hostNetwork": none, "webhook.service": none, "webhook.loadBalancerIP": none, "networkPolicy": none, "cainjector.networkPolicy": none,
	"acmesolver": "certplane runs its own image as solver", "prometheus": "certplane's metrics are on port 8443, by TLS, for clients with rights",
	"startupapicheck": "certplane check", "creator": noMeaning, "enabled": noMeaning, "extraObjects": none, "global.rbac": noMeaning, "global.podSecurityPolicy": noMeaning,
	"global": none, "image": noMeaning, "imageRegistry": noMeaning, "imageNamespace": noMeaning, "webhook.image": noMeaning, "cainjector.image": noMeaning,
	"serviceAccount": "see the topic Trust", "webhook.serviceAccount": noMeaning, "cainjector.serviceAccount": noMeaning, "http_proxy": none, "https_proxy": none, "no_proxy": none,
	"":          none, // about pods
	"app.trust": "", "secretTargets": "", "filterExpiredCertificates": "", "filterNonCACerts": "", "app.targetNamespaces": "", "defaultPackage": "",
}

// none is the text of values without a counterpart.
const none = "no counterpart in certplane's manifests"

// chartValue returns what becomes of a value of a chart.
func chartValue(path string) string {
	best := ""
	for begin := range chartValues {
		if strings.HasPrefix(path, begin) && len(begin) > len(best) {
			best = begin
		}
	}
	return chartValues[best]
}
