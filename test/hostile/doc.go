// Package hostile attacks a server in a separate process, as four kinds of
// clients: one without credentials, a user without rights, a node, and an editor
// of a namespace. During each attack, the server must serve all other clients:
// probes, users, nodes, bootstrap tokens of nodes, approval and signing.
//
// To add an attack, add a row to the table attacks in attacks_test.go: its
// name, the attacker, and a function that attacks until its context ends. The
// function calls armed when the attack has reached its full strength. From then
// on observers act, and each of their actions must succeed. The function counts
// the attacker's answers in the tally, which is printed.
//
// "make test" runs the attacks; "make hostile" runs the floods as well.
package hostile
