package cli

import (
	"fmt"
	"slices"
)

// insteadOf lists certplane's replacements for verbs of cmctl and of other programs.
var insteadOf = map[string][]string{
	"check": {
		"To see whether the API is ready: certplane kubectl get --raw /readyz",
		"'cmctl check api' also works with this server.",
	},
	"create": {
		"To obtain a key and a certificate from an issuer of cert-manager.io:",
		"  certplane request --signer issuers.cert-manager.io/NAMESPACE.NAME --cn web.example.com --dns web.example.com",
		"To keep a certificate in a Secret, apply a Certificate: certplane kubectl apply -f FILE",
	},
	"upgrade":      {"No migration is needed: cert-manager.io/v1 is the only version that is served and stored."},
	"convert":      {"cert-manager.io/v1 is the only version that is served: 'cmctl convert' makes manifests of it from older ones."},
	"x":            insteadOfExperimental,
	"experimental": insteadOfExperimental,
	"install":      insteadOfExperimental,

	"certs": {"To see the certificates that were issued: certplane certificates", "To see requests: certplane requests"},
	"list":  {"To see requests: certplane requests", "To see the certificates that were issued: certplane certificates", "To see signers: certplane signer list"},
	"init":  {"Nothing has to be initialised: 'certplane serve' makes its data folder, keys and CAs on the first start."},
	"sign": {
		"Signers sign requests once these are approved.",
		"To request and approve a certificate: certplane request --signer NAME --dns web.example.com --approve",
		"To approve a request: certplane approve NAME",
	},
	"uninstall": insteadOfExperimental,
}

var insteadOfExperimental = []string{
	"To install certplane in a cluster: certplane manifests | kubectl apply -f -",
	"To make a CertificateSigningRequest: certplane request --signer issuers.cert-manager.io/NAMESPACE.NAME --cn web.example.com",
}

// kubectlVerbs are verbs of kubectl that certplane lacks. The remaining verbs of kubectl
// need running pods.
var kubectlVerbs = []string{
	"annotate", "api-resources", "api-versions", "apply", "auth", "certificate", "cluster-info", "delete", "describe", "diff",
	"edit", "events", "get", "kustomize", "label", "patch", "proxy", "replace", "wait",
}

// adviceInstead returns the advice for a verb of cmctl or kubectl, and nil for any other.
func adviceInstead(unknownCommand error) []string {
	var verb string
	if _, err := fmt.Sscanf(unknownCommand.Error(), "unknown command %q", &verb); err != nil {
		return nil
	}
	switch {
	case slices.Contains(kubectlVerbs, verb):
		return []string{"That is a verb of kubectl, which is built in: certplane kubectl " + verb + " ..."}
	case verb == "logs":
		return []string{"certplane runs no pods. The log of 'certplane serve' is its standard error.", "To see Events: certplane kubectl events -A"}
	}
	return insteadOf[verb]
}
