// Package issuer makes a certificate issuer for cert-manager.io's API of two
// functions.
//
// Provide a kind of custom resource that describes how to reach a CA, a
// function that checks whether the CA can be reached, and a function that gets
// a certificate from it:
//
//	err := issuer.Run(ctx, config, issuer.Controller{
//		Name:        "sample-issuer.example.com",
//		Kinds:       []issuer.Issuer{&v1alpha1.SampleIssuer{}, &v1alpha1.SampleClusterIssuer{}},
//		AddToScheme: v1alpha1.AddToScheme,
//		Check:       check,
//		Sign:        sign,
//	}, ctrl.Options{LeaderElection: true})
//
// The package does the rest. It answers CertificateRequests that refer to an
// object of these kinds, and CertificateSigningRequests of certificates.k8s.io
// whose signer is named after one, once they are approved. It writes
// conditions, Events and the certificate, retries after temporary errors, and
// keeps the Ready condition of the issuers up to date. It works with any API
// server that has the API of cert-manager.io: "certplane serve", or a cluster
// with cert-manager or certplane in it.
//
// # Errors
//
// What Sign and Check return decides what happens next:
//
//   - [Permanent]: the request has failed permanently; an issuer is not ready until
//     its spec changes.
//   - [Invalid]: as Permanent; a CertificateRequest gets the condition
//     InvalidRequest as well, which says that no issuer will ever sign it.
//   - [Pending]: the CA needs time. The request is tried again when asked for.
//   - [NotReady]: the fault is with the issuer, not with the request. The issuer
//     is not ready until a Check succeeds, and all its requests wait for that.
//   - any other error, and a panic: tried again after 5 seconds at first, then
//     after twice as long each time, up to 5 minutes. A request fails when that
//     has gone on for Controller.RetryFor.
//
// Every client that can read the request can read the text of these errors in
// its conditions and Events: put no secrets there. The text of a panic is only
// logged.
package issuer
