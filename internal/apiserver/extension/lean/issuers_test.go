package lean_test

import "net/http"

// issuers have defaults, unknown fields that are kept, and rules in CEL; some are
// not in a namespace.
func issuers() []call {
	const (
		issuers        = "/apis/GROUP/v1/namespaces/default/issuers"
		clusterIssuers = "/apis/GROUP/v1/clusterissuers"
		challenges     = "/apis/GROUP/v1/namespaces/default/challenges"
	)
	send := func(name, path, kind, meta, spec string, query ...string) call {
		c := call{name: name, method: http.MethodPost, path: path, format: "application/json"}
		for _, q := range query {
			c.path += q
		}
		c.body = `{"apiVersion":"GROUP/v1","kind":"` + kind + `","metadata":{` + meta + `},"spec":` + spec + `}`
		return c
	}
	acme := `{"acme":{"server":"https://acme.example.com","privateKeySecretRef":{"name":"key"},"solvers":[
	{"http01":{"gatewayHTTPRoute":{"parentRefs":[{"name":"gate"}]}}},
	{"dns01":{"webhook":{"groupName":"g","solverName":"s","config":{"free":{"form":[1,2.5,null,"<x>"]}}}}},
	{"http01":{"ingress":{"podTemplate":{"spec":{"surprise":1,"nodeSelector":{"a":"b"}}}}}}]}}`
	vault := `{"vault":{"server":"https://vault","path":"p","auth":{"kubernetes":{"role":"r","serviceAccountRef":{"name":"x"}}}}}`
	return []call{
		send("ok an issuer with defaults", issuers, "Issuer", `"name":"acme"`, acme, "?fieldValidation=Warn"),
		send("ok an issuer of a cluster", clusterIssuers, "ClusterIssuer", `"name":"acme"`, acme),
		send("refused: in a namespace", "/apis/GROUP/v1/namespaces/default/clusterissuers", "ClusterIssuer", `"name":"acme"`, acme),
		send("ok vault", issuers, "Issuer", `"name":"vault"`, vault),
		send("refused: a secret without a key", issuers, "Issuer", `"name":"bad"`, `{"acme":{"server":"x"}}`),
		send("ok an empty issuer", issuers, "Issuer", `"generateName":"made-","name":"made"`, `{"selfSigned":{}}`),
		send("refused: venafi without a way", issuers, "Issuer", `"name":"bad"`, `{"venafi":{"zone":"z","ngts":{},"cloud":{}}}`),
		{name: "ok change a default", method: http.MethodPatch, path: issuers + "/acme", format: jsonPatch,
			body: `[{"op":"remove","path":"/spec/acme/solvers/0/http01/gatewayHTTPRoute/parentRefs/0/kind"}]`},
		{name: "ok apply a default", method: http.MethodPatch, path: issuers + "/applied?fieldManager=one", format: applyPatch,
			body: `{"apiVersion":"GROUP/v1","kind":"Issuer","metadata":{"name":"applied"},"spec":` + acme + `}`},
		{name: "ok the issuers", path: issuers},
		{name: "ok the issuers of the cluster", path: clusterIssuers},
		{name: "ok an issuer as a table", path: issuers, accept: tables},
		send("refused: a challenge without content", challenges, "Challenge", `"name":"c"`, `{}`),
		send("ok a challenge", challenges, "Challenge", `"name":"c"`, `{"authorizationURL":"u","dnsName":"d","issuerRef":{"name":"acme"},"key":"k","solver":{},"token":"t","type":"DNS-01","url":"u"}`),
		{name: "ok delete all issuers", method: http.MethodDelete, path: issuers},
	}
}
