// Package hostile attacks a server, a process of its own, as four kinds of
// clients: one without credentials, a user without rights, a node and an editor
// of a namespace. During each attack, all other clients must be served: probes,
// users, nodes, tokens that bootstrap nodes, approval and signing.
//
// To add an attack, add a row to the table attacks in attacks_test.go: its
// name, the attacker, and a function that attacks until its context ends. It
// calls armed when the attack has its full strength. From then on observers
// act, and each of their actions must succeed. The function counts the answers
// that the attacker gets in the tally, which is printed.
//
// "make test" runs the attacks; "make hostile" runs the floods as well.
package hostile
