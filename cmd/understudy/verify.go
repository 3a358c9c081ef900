package main

func verifyCommand() command {
	return command{
		name: "verify", summary: "recount the ledger and fail loudly on any disagreement",
		example: "understudy verify",
	}
}
