// Package secrets checks that the secrets of issuers are only where they were
// put: not in logs, Events, metrics and other objects, even if the servers that
// get them show them in their errors.
package secrets
