// Package approverpolicy compares certplane's decisions by
// CertificateRequestPolicies with the decisions of approver-policy itself.
//
// It is a separate module because only this test needs approver-policy.
package approverpolicy
