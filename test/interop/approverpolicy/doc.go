// Package approverpolicy compares what certplane decides by
// CertificateRequestPolicies with what approver-policy itself decides.
//
// It is a module of its own because only this test needs approver-policy.
package approverpolicy
