{{- /* Made by hack/generate.sh: the controllers, and whether "*" includes them; those that need
     one of some others; the sets of controllers; and the settings that give controllers something to do. */ -}}
{{- define "certplane.table" -}}
{"controllers":{"acme-approver":true,"acme-certificate":true,"acme-cleaner":true,"acme-endpoints":true,"acme-orders":true,"acme-validator":true,"approve":true,"bundles":false,"cainjector":false,"certificaterequests":false,"certificaterequests-approver":false,"certificates":false,"certificatesigningrequests":false,"challenges":false,"clean":true,"declare":true,"fillconfigmaps":false,"gateway-shim":false,"ingress-shim":false,"issuers":false,"node-lifecycle-controller":false,"orders":false,"podsign":true,"policies":true,"publish":false,"publishlists":true,"record":true,"sign":true,"signers":true,"trust":true,"trustbundles":false},"needs":{"fillconfigmaps":["publishlists"],"podsign":["signers"],"trust":["sign","publish","signers"]},"sets":{"@cert-manager":["issuers","certificaterequests","certificaterequests-approver","certificates","orders","challenges","ingress-shim","cainjector"],"@trust-manager":["bundles"]},"settings":{"podSigners.install":{"controller":"declare","setting":["podSigners","install"]},"policy.install":{"controller":"declare","setting":["policy","install"]}}}
{{- end }}
{{- define "certplane.servesWebhook" -}}
{{- $chosen := include "certplane.chosen" . | fromJson -}}
{{- include "certplane.oneOf" (list $chosen "signers" "issuers" "certificaterequests" "certificatesigningrequests" "certificaterequests-approver" "certificates" "orders" "challenges" "bundles" "ingress-shim" "gateway-shim" "trustbundles") -}}
{{- end }}
