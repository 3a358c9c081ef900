# Makes bench.sh's table of the lines "name ... value unit" of go test and of bench.py. Variables: sheet, the
# card's TFLOP/s in bfloat16 by its data sheet (0: not known), and judged, 0 where speeds mean nothing.
function name(s) { sub(/^BenchmarkCard\//, "", s); sub(/-[0-9]+$/, "", s); return s }
function aim(got, least) { return judged ? sprintf("aim %g: %s", least, got >= least ? "met" : "NOT MET") : sprintf("aim %g", least) }
function add(text, part) { return part == "" ? text : text (text == "" ? "" : "; ") part }

# share is how much of the card's limit a line reaches, and whether that is what is aimed at.
function share(k,    text, percent) {
	if ((k in bytes) && limit["copy"] > 0) {
		percent = 100 * figure[k] * bytes[k] / (limit["copy"] * 1000) # MB a token, GB/s
		text = sprintf("%.1f %% of the bytes that copy moves", percent)
		if (k ~ /batch=1\/shared=1$/) text = add(text, aim(percent, 40))
		if (k ~ /batch=256\/shared=1$/) text = add(text, aim(percent, 50))
	}
	if (k in work) { # GFLOP a token
		if (limit["matmul"] > 0) text = sprintf("%.1f %% of matmul/fast", 100 * figure[k] * work[k] / (limit["matmul"] * 1000))
		if (sheet > 0) {
			percent = 100 * figure[k] * work[k] / (sheet * 1000)
			text = add(text, sprintf("%.1f %% of the sheet's %g TFLOP/s", percent, sheet))
			if (k ~ /\/train$/) text = add(text, aim(percent, 40))
		}
	}
	return text
}

FILENAME ~ /torch$/ { torch[$1] = $2; next }
/^BenchmarkCard/ && NF > 2 { # more than that it begins
	key = name($1)
	for (i = 3; i < NF; i++) {
		if ($(i+1) ~ /^(GB\/s|TFLOP\/s|tokens\/s)$/) { figure[key] = $i; unit[key] = $(i+1) }
		if ($(i+1) == "MB/token") bytes[key] = $i
		if ($(i+1) == "GFLOP/token") work[key] = $i
	}
	order[++n] = key
}
END {
	limit["copy"] = figure["copy"]
	limit["matmul"] = figure["matmul/fast"]
	printf "%-34s %12s %-9s %12s %7s  %s\n", "what", "understudy", "", "torch", "ratio", "share of the card's limit"
	for (i = 1; i <= n; i++) {
		k = order[i]
		if (!(k in figure)) continue
		text = share(k)
		if ((k in torch) && torch[k] > 0 && unit[k] == "tokens/s") text = add(text, "torch: " aim(figure[k] / torch[k], 1))
		printf "%-34s %12.1f %-9s %12s %7s  %s\n", k, figure[k], unit[k], (k in torch ? sprintf("%.1f", torch[k]) : "-"),
			(k in torch && torch[k] > 0 ? sprintf("%.2f", figure[k] / torch[k]) : "-"), text
		plain = k
		sub(/shared=8$/, "shared=1", plain)
		if (plain != k && figure[plain] > 0)
			printf "%-34s %12.2f %-9s %12s %7s  %s\n", "  groups of 8, over plain", figure[k] / figure[plain], "times", "-", "-", aim(figure[k] / figure[plain], 1.8)
	}
}
